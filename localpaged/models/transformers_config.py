"""Turns a transformers config into a decoder config; transformers loads when a folder is first
opened, and only if the folder's config.json names a family that runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localpaged.decoder_config import Activation, DecoderConfig
from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.families import (
    FOLDER_TYPES,
    GEMMAS,
    HEADS_NORMED,
    OTHER_MODEL_HINT,
    POST_NORMED,
)
from localpaged.models.granite import with_multipliers
from localpaged.models.tensor_layout import MAX_LAYERS
from localpaged.models.transformers_rope import local_theta, rope_of
from localpaged.plain_text import visible

TEXT_CLASS = "ForCausalLM"
MULTIMODAL_CLASSES = {"gemma3": "Gemma3ForConditionalGeneration"}
"""Models that read more than text, whose config has one of its own for the part that reads it."""

ACTIVATIONS: Mapping[str, Activation] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}

_MAX_CONFIG_BYTES = 2**20


def transformers_decoder_config(folder: Path) -> DecoderConfig:
    """Return the config of the safetensors model in `folder`.

    Raises UnsupportedModel for families and features the decoder does not have, BadModelFile for
    a config that is missing or not valid.
    """
    raw = _read_json(folder / "config.json")
    _check_family(folder, raw)
    _check_num_layers(folder, raw)
    whole = _auto_config(folder)
    try:
        return _decoder(folder, whole)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # transformers looks at a part of what its configs have, and takes the rest as it is
        raise _not_valid(folder, error) from error


def _decoder(folder: Path, whole: Any) -> DecoderConfig:
    config = getattr(whole, "text_config", whole)
    family = FOLDER_TYPES[whole.model_type]
    _check_features(folder, config, family)
    num_heads = config.num_attention_heads
    theta, scaling = rope_of(folder, config)
    window, full_layers = _windows(folder, config, family)
    decoder = DecoderConfig(
        architecture=family,
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=config.num_hidden_layers,
        num_heads=num_heads,
        num_kv_heads=config.num_key_value_heads or num_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // num_heads,
        context_length=config.max_position_embeddings,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=theta,
        rope_scaling=scaling,
        has_qkv_bias=family == "qwen2",
        has_qk_norm=family in HEADS_NORMED,
        is_tied=bool(whole.tie_word_embeddings),
        sliding_window=window,
        full_layers=full_layers,
        local_rope_theta=None if window is None else local_theta(folder, config),
        activation=ACTIVATIONS[_activation(config)],
        has_post_norms=family in POST_NORMED,
        embed_scale=config.hidden_size**0.5 if family in GEMMAS else 1.0,
        query_scale=_query_scale(folder, config) if family in ("gemma2", "gemma3") else None,
        attention_softcap=_softcap(folder, config, "attn_logit_softcapping"),
        logit_softcap=_softcap(folder, config, "final_logit_softcapping"),
        unrotated_layers=_unrotated(config) if family == "smollm3" else (),
        has_pre_norms=family != "olmo2",
        has_wide_qk_norm=family == "olmo2",
    )
    return _with_multipliers(folder, config, decoder) if family == "granite" else decoder


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise BadModelFile(f"{visible(str(path))} is too large for a config.")
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BadModelFile(
            f"{visible(str(path.parent))} has no {path.name}.",
            hint="Give the folder of a model with config, tokenizer and safetensors files.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadModelFile(
            f"{visible(str(path))} cannot be read.", hint="Fetch the model again."
        ) from error
    if not isinstance(content, dict):
        raise BadModelFile(f"{visible(str(path))} holds no JSON object.")
    return content


def _check_family(folder: Path, raw: dict[str, Any]) -> None:
    shown = visible(str(folder))
    family = raw.get("model_type")
    if not isinstance(family, str) or family not in FOLDER_TYPES:
        raise UnsupportedModel(
            f"{shown}: the architecture {visible(str(family))} is not supported.",
            hint=OTHER_MODEL_HINT,
        )
    wanted = MULTIMODAL_CLASSES.get(family, TEXT_CLASS)
    classes = raw.get("architectures") or [wanted]
    if not isinstance(classes, list):
        raise BadModelFile(
            f"{shown}: config.json has the architectures {visible(str(classes)[:40])}.",
            hint="The config is damaged: fetch the model again.",
        )
    if not any(str(name).endswith(wanted) for name in classes):
        raise UnsupportedModel(
            f"{shown} holds a {visible(str(classes[0]))}, which writes no text.",
            hint=OTHER_MODEL_HINT,
        )
    if quantisation := raw.get("quantization_config"):
        method = quantisation.get("quant_method") if isinstance(quantisation, dict) else "unknown"
        raise UnsupportedModel(
            f"{shown} is quantised with {visible(str(method))}, which is not supported.",
            hint="Choose a version of the model that is not quantised, or a GGUF file.",
        )


def _check_num_layers(folder: Path, raw: dict[str, Any]) -> None:
    # before transformers makes a list of that length
    text = raw.get("text_config")
    layers = (text if isinstance(text, dict) else raw).get("num_hidden_layers", 1)
    if type(layers) is not int or not 1 <= layers <= MAX_LAYERS:
        raise BadModelFile(
            f"{visible(str(folder))}: its config has {visible(str(layers)[:40])} layers.",
            hint="The config is damaged: fetch the model again.",
        )


def _auto_config(folder: Path) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers raises whatever its validators raise
        raise _not_valid(folder, error) from error


def _not_valid(folder: Path, error: Exception) -> BadModelFile:
    reason = visible(" ".join(str(error).split())[:300])
    return BadModelFile(
        f"{visible(str(folder))}: config.json is not valid: {reason}",
        hint="Fetch the model again.",
    )


def _check_features(folder: Path, config: Any, family: str) -> None:
    """Refuse what changes the arithmetic and is not in the decoder."""
    rotated = getattr(config, "partial_rotary_factor", None)
    rotated = config.rope_parameters.get("partial_rotary_factor", rotated)
    activation = _activation(config)
    refused = {
        "attention_bias": family != "qwen2" and getattr(config, "attention_bias", False),
        "mlp_bias": getattr(config, "mlp_bias", False),
        f"hidden_act {activation}": activation not in ACTIVATIONS,
        "partial_rotary_factor": rotated not in (None, 1.0),
        "use_bidirectional_attention": getattr(config, "use_bidirectional_attention", False),
        # transformers has the setting and does not look at it
        "attn_logit_softcapping": family == "gemma3" and config.attn_logit_softcapping,
    }
    for feature, is_there in refused.items():
        if is_there:
            raise UnsupportedModel(
                f"{visible(str(folder))}: {config.model_type} with {visible(feature)} "
                "is not supported.",
                hint=OTHER_MODEL_HINT,
            )


def _activation(config: Any) -> str:
    """Return the gate's activation; Gemma's configs may have one that is not meant beside it."""
    return str(getattr(config, "hidden_activation", None) or config.hidden_act)


def _windows(folder: Path, config: Any, family: str) -> tuple[int | None, tuple[int, ...]]:
    """Return the window and the layers without one; qwen configs carry one that is switched off."""
    window = getattr(config, "sliding_window", None)
    if family == "llama" or window is None:
        return None, ()
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    if unknown := set(kinds) - {"full_attention", "sliding_attention"}:
        raise UnsupportedModel(
            f"{visible(str(folder))}: layers of the kind {visible(min(unknown))} "
            "are not supported.",
            hint=OTHER_MODEL_HINT,
        )
    full = tuple(layer for layer, kind in enumerate(kinds) if kind == "full_attention")
    if len(full) == len(kinds):
        return None, ()
    return int(_positive(folder, config, "sliding_window")), full


def _query_scale(folder: Path, config: Any) -> float | None:
    if getattr(config, "query_pre_attn_scalar", None) is None:
        return None
    return 1 / math.sqrt(_positive(folder, config, "query_pre_attn_scalar"))


def _unrotated(config: Any) -> tuple[int, ...]:
    has_rope = getattr(config, "no_rope_layers", None) or ()
    return tuple(i for i, is_on in enumerate(has_rope[: config.num_hidden_layers]) if not is_on)


def _with_multipliers(folder: Path, config: Any, decoder: DecoderConfig) -> DecoderConfig:
    return with_multipliers(
        decoder,
        embedding=_positive(folder, config, "embedding_multiplier"),
        attention=_positive(folder, config, "attention_multiplier"),
        residual=_positive(folder, config, "residual_multiplier"),
        logits=_positive(folder, config, "logits_scaling"),
    )


def _softcap(folder: Path, config: Any, key: str) -> float | None:
    cap = getattr(config, key, None)
    return None if cap is None else _positive(folder, config, key)


def _positive(folder: Path, config: Any, key: str) -> float:
    """Return a number that is divided by, or taken a root of."""
    number = float(getattr(config, key))
    if not 0 < number < float("inf"):
        raise BadModelFile(
            f"{visible(str(folder))}: its config has the {key} {number}.",
            hint="The config is damaged: fetch the model again.",
        )
    return number
