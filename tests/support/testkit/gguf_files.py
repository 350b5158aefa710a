"""GGUF files for tests: tiny models written with the public writer, and headers made by hand."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from testkit.tiny_model import CHAT_TEMPLATE, SPECIAL_TOKENS, build_tiny_model, build_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

NORMAL, CONTROL, BYTE = 1, 3, 6
STRING, ARRAY, UINT32, FLOAT32, BOOL = 8, 9, 4, 6, 7

Metadata = dict[str, Any]
_INTERLEAVED = ("llama", "granite", "smollm3")


def save_tiny_gguf(
    folder: Path,
    family: str,
    *,
    quantisation: str = "F32",
    raw_tensors: Mapping[str, tuple[str, Any]] | None = None,
    metadata: Metadata | None = None,
    tokenizer: Callable[[Any], None] | None = None,
    **overrides: Any,
) -> Path:
    """Write the model of `save_tiny_model` as one GGUF file into `folder`; return its path.

    Matrices get `quantisation`; `raw_tensors` replaces tensors, by their GGUF name, by a type and
    the uint8 rows of that type, which need not be what the library can quantise.
    `metadata` sets or, with None, leaves out architecture keys; `tokenizer` writes another one.
    """
    import gguf

    model = build_tiny_model(family, **overrides)
    architecture = _architecture(model.config)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{family}-{quantisation}.gguf".lower()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"tiny {family}")
    for key, value in {**_metadata(model.config), **(metadata or {})}.items():
        _add(writer, f"{architecture}.{key}", value)
    (tokenizer or add_byte_level_tokenizer)(writer)
    for name, tensor in _tensors(model, architecture):
        type_name = "F32" if tensor.ndim == 1 else quantisation
        data = None
        if raw_tensors is not None and name in raw_tensors:
            type_name, data = raw_tensors[name]
        type_ = gguf.GGMLQuantizationType[type_name]
        if data is None:
            data = gguf.quants.quantize(tensor, type_)
        writer.add_tensor(name, data, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_byte_level_tokenizer(
    writer: Any, *, pre: str = "gpt-2", chat_template: str | None = CHAT_TEMPLATE
) -> None:
    """Write the tiny byte-level BPE tokenizer."""
    model = json.loads(build_tokenizer().backend_tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token in SPECIAL_TOKENS else NORMAL for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    if chat_template is not None:
        writer.add_chat_template(chat_template)


def write_header(
    path: Path,
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_tensors: int | None = None,
    num_entries: int | None = None,
    entries: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
) -> Path:
    """Write a header by hand, true or not; counts default to what is given."""
    counts = (
        len(tensors) if num_tensors is None else num_tensors,
        len(entries) if num_entries is None else num_entries,
    )
    head = magic + struct.pack("<IQQ", version, *counts) + b"".join((*entries, *tensors))
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path


def string(text: str | bytes, *, length: int | None = None) -> bytes:
    """Return a GGUF string, with a wrong `length` if given."""
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def entry(key: str | bytes, type_: int, value: bytes) -> bytes:
    """Return one metadata entry with `value` as raw bytes."""
    return string(key) + struct.pack("<I", type_) + value


def text_entry(key: str, text: str) -> bytes:
    """Return a metadata entry that holds a string."""
    return entry(key, STRING, string(text))


def u32_entry(key: str, number: int) -> bytes:
    """Return a metadata entry that holds a 32-bit number."""
    return entry(key, UINT32, struct.pack("<I", number))


def tensor_entry(
    name: str | bytes, sizes: Sequence[int], *, type_: int = 0, offset: int = 0,
    num_dimensions: int | None = None,
) -> bytes:  # fmt: skip
    """Return one tensor's entry; `sizes` in the file's order, fastest running first."""
    count = len(sizes) if num_dimensions is None else num_dimensions
    return (
        string(name)
        + struct.pack("<I", count)
        + struct.pack(f"<{len(sizes)}Q", *sizes)
        + struct.pack("<IQ", type_, offset)
    )


def _architecture(config: Any) -> str:
    family = str(config.model_type)
    return {"mistral": "llama", "gemma3_text": "gemma3"}.get(family, family)


def _metadata(config: Any) -> Metadata:
    rope = config.rope_parameters.get("full_attention") or config.rope_parameters
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    metadata: Metadata = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "rope.freq_base": float(rope["rope_theta"]),
        "rope.dimension_count": head_dim,
    }
    if config.model_type == "mistral" and config.sliding_window:
        metadata["attention.sliding_window"] = config.sliding_window
    if config.model_type == "granite":
        metadata |= {
            "embedding_scale": config.embedding_multiplier,
            "attention.scale": config.attention_multiplier,
            "residual_scale": config.residual_multiplier,
            "logit_scale": config.logits_scaling,
        }
    if rope["rope_type"] == "linear":
        metadata |= {"rope.scaling.type": "linear", "rope.scaling.factor": rope["factor"]}
    return metadata | (_gemma(config) if config.model_type in ("gemma2", "gemma3_text") else {})


def _gemma(config: Any) -> Metadata:
    """Return what only Gemma's files tell; some of it only where it is not as usual."""
    caps = {
        "attn_logit_softcapping": config.attn_logit_softcapping,
        "final_logit_softcapping": config.final_logit_softcapping,
    }
    first_full = config.layer_types.index("full_attention") if _is_mixed(config) else None
    return {
        **caps,
        "attention.sliding_window": config.sliding_window,
        "attention.sliding_window_pattern": None
        if first_full is None or config.model_type == "gemma2"
        else first_full + 1,
    }


def _is_mixed(config: Any) -> bool:
    return "full_attention" in config.layer_types


def _add(writer: Any, key: str, value: Any) -> None:
    adders = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
    adders |= {str: writer.add_string, list: writer.add_array}
    if value is not None:
        adders[type(value)](key, value)


def _tensors(model: Any, architecture: str) -> list[tuple[str, Any]]:
    import gguf

    config = model.config
    is_gemma = config.model_type.startswith("gemma")
    arch = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tensors = []
    for name, parameter in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = parameter.numpy()
        if is_gemma and name.endswith("norm.weight"):
            array = array + 1
        if architecture in _INTERLEAVED and ".q_proj." in name:
            array = _interleave(array, config.num_attention_heads)
        if architecture in _INTERLEAVED and ".k_proj." in name:
            array = _interleave(array, config.num_key_value_heads)
        tensors.append((names.get_name(name, (".weight", ".bias")), array))
    if config.rope_parameters.get("rope_type") == "llama3":
        tensors.append(("rope_freqs.weight", _rope_factors(config)))
    return tensors


def _interleave(rows: Any, heads: int) -> Any:
    """Put rows that rotate together side by side, as GGUF files of llama models have them."""
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def _rope_factors(config: Any) -> Any:
    import numpy

    rope, dim = config.rope_parameters, config.hidden_size // config.num_attention_heads
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    original = rope["original_max_position_embeddings"]
    factors = []
    for index in range(0, dim, 2):
        turns = original / (2 * math.pi * rope["rope_theta"] ** (index / dim))
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / factor + smooth))
    return numpy.array(factors, dtype=numpy.float32)
