"""Turns a GGUF file's metadata into a decoder config and its tensors into places."""

from __future__ import annotations

from collections.abc import Mapping

from localpaged.decoder_config import DecoderConfig
from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.dequantise import can_dequantise
from localpaged.models.families import (
    GEMMAS,
    GGUF_ARCHITECTURES,
    HEADS_NORMED,
    OTHER_MODEL_HINT,
    POST_NORMED,
)
from localpaged.models.gguf_fields import GgufFields, short
from localpaged.models.gguf_file import GgufHeader, type_name
from localpaged.models.gguf_layers import (
    local_theta_of,
    query_scale_of,
    rope_scaling_of,
    softcaps_of,
    unrotated_layers_of,
    windows_of,
)
from localpaged.models.granite import with_multipliers
from localpaged.models.tensor_layout import (
    MAX_LAYERS,
    ROPE_FACTORS,
    TensorPlace,
    check_tensors,
    tensor_layout,
)
from localpaged.plain_text import visible

_DEFAULT_ROPE_THETA = 10_000.0


def gguf_decoder_config(header: GgufHeader) -> DecoderConfig:
    """Return the config that `header` describes.

    Raises UnsupportedModel for architectures and features the decoder does not have, and
    BadModelFile for values that are missing or contradict the tensors.
    """
    _check_is_whole_model(header)
    fields = GgufFields(header)
    architecture = fields.architecture
    _check_features(fields)
    num_heads = fields.whole("attention.head_count")
    hidden_size = fields.whole("embedding_length")
    num_layers = fields.whole("block_count", high=MAX_LAYERS)
    head_dim = fields.whole("attention.key_length", default=hidden_size // num_heads)
    _check_rope(fields, head_dim)
    window, full_layers = windows_of(fields, num_layers)
    attention_softcap, logit_softcap = softcaps_of(fields)
    is_gemma = architecture in GEMMAS
    tensors = header.tensors
    config = DecoderConfig(
        architecture=architecture,
        vocab_size=_vocab_size(header),
        hidden_size=hidden_size,
        intermediate_size=fields.whole("feed_forward_length"),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=fields.whole("attention.head_count_kv", default=num_heads),
        head_dim=head_dim,
        context_length=fields.whole("context_length"),
        rms_norm_eps=fields.real("attention.layer_norm_rms_epsilon"),
        rope_theta=fields.real("rope.freq_base", default=_DEFAULT_ROPE_THETA),
        rope_scaling=rope_scaling_of(fields),
        has_qkv_bias="blk.0.attn_q.bias" in tensors,
        has_qk_norm=architecture in HEADS_NORMED or "blk.0.attn_q_norm.weight" in tensors,
        is_tied=architecture in ("gemma", "gemma2") or "output.weight" not in tensors,
        sliding_window=window,
        full_layers=full_layers,
        local_rope_theta=None if window is None else local_theta_of(fields),
        activation="gelu_tanh" if is_gemma else "silu",
        has_post_norms=architecture in POST_NORMED,
        embed_scale=hidden_size**0.5 if is_gemma else 1.0,
        query_scale=query_scale_of(
            fields,
            num_layers=num_layers,
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_dim=head_dim,
        ),
        attention_softcap=attention_softcap,
        logit_softcap=logit_softcap,
        unrotated_layers=unrotated_layers_of(fields, num_layers),
        has_pre_norms=architecture != "olmo2",
        has_wide_qk_norm=architecture == "olmo2",
    )
    return _with_multipliers(fields, config) if architecture == "granite" else config


def gguf_tensor_places(header: GgufHeader, config: DecoderConfig) -> Mapping[str, TensorPlace]:
    """Return the place of every tensor under its transformers name.

    Raises UnsupportedModel, naming the tensor, for types that cannot be dequantised, and
    BadModelFile for missing, unknown and wrongly shaped tensors.
    """
    from gguf.constants import MODEL_ARCH, MODEL_ARCH_NAMES
    from gguf.tensor_mapping import get_tensor_name_map

    arch = {name: arch for arch, name in MODEL_ARCH_NAMES.items()}[config.architecture]
    assert isinstance(arch, MODEL_ARCH)
    names = get_tensor_name_map(arch, config.num_layers)
    layout = tensor_layout(config)
    to_source = {
        names.get_name(part.name, (".weight", ".bias")): part.name
        for fused in layout
        for part in fused.parts
    }
    to_source["rope_freqs.weight"] = ROPE_FACTORS
    places = {}
    for name, tensor in header.tensors.items():
        place = TensorPlace(
            header.path,
            name,
            type_name(tensor.type_id),
            tensor.shape,
            tensor.offset,
            tensor.num_bytes,
        )
        places[to_source.get(name, name)] = place
    _check_types(header)
    check_tensors(
        layout,
        places,
        shown=visible(str(header.path)),
        file_names={source: str(name) for name, source in to_source.items()},
    )
    _check_rope_factors(places, config)
    return places


def _check_is_whole_model(header: GgufHeader) -> None:
    shown = visible(str(header.path))
    num_parts = header.metadata.get("split.count", 0)
    if isinstance(num_parts, int) and num_parts > 1:
        number = header.metadata.get("split.no", 0)
        assert isinstance(number, int)
        name, dash, rest = header.path.name.rpartition(f"-{number + 1:05d}-of-")
        first = f" (the first is {visible(f'{name}-00001-of-{rest}')})" if dash and number else ""
        raise UnsupportedModel(
            f"{shown} is part {number + 1} of {num_parts} of a split model{first}.",
            hint="Join the parts with `llama-gguf-split --merge FIRST_PART WHOLE.gguf`.",
        )
    kind = header.metadata.get("general.type", "model")
    if kind != "model":
        raise UnsupportedModel(
            f"{shown} is not a model but of type {short(kind)}.",
            hint="Give the file of the language model itself.",
        )
    architecture = header.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise BadModelFile(
            f"{shown} does not name its architecture.", hint="Fetch another version of the model."
        )
    if architecture not in GGUF_ARCHITECTURES:
        raise UnsupportedModel(
            f"{shown}: the architecture {short(architecture)} is not supported.",
            hint=OTHER_MODEL_HINT,
        )


def _check_features(fields: GgufFields) -> None:
    """Refuse what changes the arithmetic and is not in the decoder."""
    experts = fields.get("expert_count")
    if experts:
        raise UnsupportedModel(
            f"{fields.shown}: {fields.architecture} with {short(experts)} experts "
            "is not supported.",
            hint="Mixture-of-experts models do not run; choose a dense model.",
        )
    refused = ["attention.clamp_kqv"]
    if fields.architecture != "granite":
        refused += ["logit_scale", "attention.scale"]
    if fields.architecture not in ("gemma2", "gemma3"):
        refused.append("final_logit_softcapping")
    if fields.architecture != "gemma2":
        refused.append("attn_logit_softcapping")
    for key in refused:
        if fields.get(key):
            raise UnsupportedModel(
                f"{fields.shown}: {fields.architecture}.{key} is not supported.",
                hint=OTHER_MODEL_HINT,
            )
    if fields.get("attention.causal") is False:
        raise UnsupportedModel(
            f"{fields.shown} is an embedding model, it writes no text.", hint=OTHER_MODEL_HINT
        )
    key_length, value_length = (
        fields.get("attention.key_length"),
        fields.get("attention.value_length"),
    )
    if value_length is not None and value_length != key_length:
        raise UnsupportedModel(
            f"{fields.shown}: keys of {short(key_length)} and values of {short(value_length)} "
            "dimensions are not supported.",
            hint=OTHER_MODEL_HINT,
        )


def _with_multipliers(fields: GgufFields, config: DecoderConfig) -> DecoderConfig:
    def multiplier(key: str, default: float = 1.0) -> float:
        return fields.real(key) if fields.get(key) else default  # as llama.cpp takes a zero

    return with_multipliers(
        config,
        embedding=multiplier("embedding_scale"),
        attention=multiplier("attention.scale", config.softmax_scale),
        residual=multiplier("residual_scale"),
        logits=multiplier("logit_scale"),
    )


def _check_rope(fields: GgufFields, head_dim: int) -> None:
    rotated = fields.whole("rope.dimension_count", default=head_dim)
    if rotated != head_dim:
        raise UnsupportedModel(
            f"{fields.shown} rotates {rotated} of {head_dim} dimensions; only all are supported.",
            hint=OTHER_MODEL_HINT,
        )


def _vocab_size(header: GgufHeader) -> int:
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise BadModelFile(
            f"{visible(str(header.path))} lacks the tensor token_embd.weight.",
            hint="It holds a vocabulary or an adapter but no model: fetch the model itself.",
        )
    return embedding.shape[0]


def _check_types(header: GgufHeader) -> None:
    for name, tensor in header.tensors.items():
        if not can_dequantise(type_name(tensor.type_id)):
            raise UnsupportedModel(
                f"{visible(str(header.path))}: the tensor {visible(name)} has the type "
                f"{type_name(tensor.type_id)}, which cannot be read.",
                hint="Choose another quantisation of this model, for example Q4_K_M or Q8_0.",
            )


def _check_rope_factors(places: Mapping[str, TensorPlace], config: DecoderConfig) -> None:
    factors = places.get(ROPE_FACTORS)
    if factors is not None and (factors.shape, factors.type) != ((config.head_dim // 2,), "F32"):
        raise BadModelFile(
            f"{visible(str(factors.file))}: the tensor rope_freqs.weight has type {factors.type} "
            f"and shape {list(factors.shape)}, not F32 and [{config.head_dim // 2}].",
            hint="Fetch the model again.",
        )
