"""Turns a transformers config into a decoder config; transformers loads when a folder is first
opened, and only if the folder's config.json names a family that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from localpaged.decoder_config import DecoderConfig, Llama3RopeScaling
from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.tensor_layout import MAX_LAYERS
from localpaged.plain_text import visible

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")

_OTHER_MODEL_HINT = f"Models of the families {', '.join(FAMILIES)} run."
_MAX_CONFIG_BYTES = 2**20


def transformers_decoder_config(folder: Path) -> DecoderConfig:
    """Return the config of the safetensors model in `folder`.

    Raises UnsupportedModel for families and features the decoder does not have, BadModelFile for
    a config that is missing or not valid.
    """
    raw = _read_json(folder / "config.json")
    _check_family(folder, raw)
    _check_num_layers(folder, raw)
    config = _auto_config(folder)
    _check_features(folder, config)
    num_heads = config.num_attention_heads
    theta, scaling = _rope(folder, config)
    return DecoderConfig(
        architecture=config.model_type,
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
        has_qkv_bias=config.model_type == "qwen2",
        has_qk_norm=config.model_type == "qwen3",
        is_tied=bool(config.tie_word_embeddings),
        sliding_window=_sliding_window(folder, config),
    )


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
    if family not in FAMILIES:
        raise UnsupportedModel(
            f"{shown}: the architecture {visible(str(family))} is not supported.",
            hint=_OTHER_MODEL_HINT,
        )
    classes = raw.get("architectures") or ["ForCausalLM"]
    if not any(str(name).endswith("ForCausalLM") for name in classes):
        raise UnsupportedModel(
            f"{shown} holds a {visible(str(classes[0]))}, which writes no text.",
            hint=_OTHER_MODEL_HINT,
        )
    if quantisation := raw.get("quantization_config"):
        method = quantisation.get("quant_method") if isinstance(quantisation, dict) else "unknown"
        raise UnsupportedModel(
            f"{shown} is quantised with {visible(str(method))}, which is not supported.",
            hint="Choose a version of the model that is not quantised, or a GGUF file.",
        )


def _check_num_layers(folder: Path, raw: dict[str, Any]) -> None:
    # before transformers makes a list of that length
    layers = raw.get("num_hidden_layers", 1)
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
        reason = visible(" ".join(str(error).split())[:300])
        raise BadModelFile(
            f"{visible(str(folder))}: config.json is not valid: {reason}",
            hint="Fetch the model again.",
        ) from error


def _check_features(folder: Path, config: Any) -> None:
    """Refuse what changes the arithmetic and is not in the decoder."""
    rotated = getattr(config, "partial_rotary_factor", None)
    rotated = config.rope_parameters.get("partial_rotary_factor", rotated)
    refused = {
        "attention_bias": config.model_type != "qwen2" and getattr(config, "attention_bias", False),
        "mlp_bias": getattr(config, "mlp_bias", False),
        f"hidden_act {config.hidden_act}": config.hidden_act != "silu",
        "partial_rotary_factor": rotated not in (None, 1.0),
    }
    for feature, is_there in refused.items():
        if is_there:
            raise UnsupportedModel(
                f"{visible(str(folder))}: {config.model_type} with {visible(feature)} "
                "is not supported.",
                hint=_OTHER_MODEL_HINT,
            )


def _rope(folder: Path, config: Any) -> tuple[float, Llama3RopeScaling | None]:
    rope = config.rope_parameters
    kind = rope.get("rope_type", "default")
    theta = float(rope["rope_theta"])
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise UnsupportedModel(
            f"{visible(str(folder))}: the rope type {visible(str(kind))} is not supported.",
            hint="The rope types default and llama3 run.",
        )
    return theta, Llama3RopeScaling(
        factor=float(rope["factor"]),
        low_freq_factor=float(rope["low_freq_factor"]),
        high_freq_factor=float(rope["high_freq_factor"]),
        original_context=int(rope["original_max_position_embeddings"]),
    )


def _sliding_window(folder: Path, config: Any) -> int | None:
    """Return the window that all layers share; qwen configs carry one that is switched off."""
    window = getattr(config, "sliding_window", None)
    if config.model_type == "llama" or window is None:
        return None
    kinds = set(getattr(config, "layer_types", None) or ["sliding_attention"])
    if kinds == {"full_attention"}:
        return None
    if kinds != {"sliding_attention"}:
        raise UnsupportedModel(
            f"{visible(str(folder))}: layers that mix attention windows are not supported.",
            hint=_OTHER_MODEL_HINT,
        )
    return int(window)
