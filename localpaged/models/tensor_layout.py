"""Which tensors a decoder needs, and how the file's tensors are fused into the engine's.

Fused means stacked by rows: one matrix product instead of three (query, key, value) or two
(gate, up). Source names are transformers' names; GGUF files translate theirs into these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localpaged.decoder_config import DecoderConfig
from localpaged.errors import BadModelFile
from localpaged.plain_text import visible

ROPE_FACTORS = "rope_factors"
LAST_NORM = "norm.weight"
MAX_LAYERS = 4_096

_PROJECTIONS = ("qkv", "o", "gate_up", "down")
_MAX_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor lies. `type` is a GGUF type name or F32, F16, BF16 of a safetensors file.

    `name` is the file's own name for it; `shape` has rows first.
    """

    file: Path
    name: str
    type: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class SourceTensor:
    """One tensor of the file; `rope_heads` > 0 marks rows that are grouped into rotated heads."""

    name: str
    shape: tuple[int, ...]
    rope_heads: int = 0


@dataclass(frozen=True, slots=True)
class FusedTensor:
    """One tensor of the engine: its sources, stacked by rows in this order."""

    name: str
    parts: tuple[SourceTensor, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of all parts together, columns of one."""
        return (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:])

    @property
    def projection(self) -> str | None:
        """The name of the layer's matrix product that this is the weight of."""
        stem, _, kind = self.name.rpartition(".")
        is_one = kind == "weight" and stem.rpartition(".")[2] in _PROJECTIONS
        return stem if is_one else None

    @property
    def is_norm(self) -> bool:
        """Whether these are the weights of a norm."""
        return self.name.endswith("norm.weight")

    @property
    def is_last_norm(self) -> bool:
        """Whether these are those of the norm before the head."""
        return self.name == LAST_NORM


def check_sizes(config: DecoderConfig, *, shown: str) -> None:
    """Raise BadModelFile for sizes no decoder can have."""
    sizes = {
        "vocabulary": config.vocab_size,
        "hidden size": config.hidden_size,
        "intermediate size": config.intermediate_size,
        "number of heads": config.num_heads,
        "number of KV heads": config.num_kv_heads,
        "head dimension": config.head_dim,
        "context": config.context_length,
    }
    wrong = [f"{name} {size}" for name, size in sizes.items() if not 1 <= size < 2**31]
    if not 1 <= config.num_layers <= MAX_LAYERS:
        wrong.append(f"number of layers {config.num_layers}")
    if not wrong and config.num_heads % config.num_kv_heads:
        wrong.append(f"{config.num_heads} heads over {config.num_kv_heads} KV heads")
    if config.head_dim % 2:
        wrong.append(f"odd head dimension {config.head_dim}")
    if wrong:
        raise BadModelFile(
            f"{shown}: its config has the {', '.join(wrong)}.",
            hint="The config is damaged: fetch the model again.",
        )


def tensor_layout(config: DecoderConfig) -> tuple[FusedTensor, ...]:
    """Return every tensor the decoder of `config` needs, in the order of computation."""
    vocab = (config.vocab_size, config.hidden_size)
    layout = [_single("embed.weight", "model.embed_tokens.weight", vocab)]
    for layer in range(config.num_layers):
        layout += _layer(config, f"layers.{layer}.", f"model.layers.{layer}.")
    layout.append(_single(LAST_NORM, "model.norm.weight", (config.hidden_size,)))
    if not config.is_tied:
        layout.append(_single("head.weight", "lm_head.weight", vocab))
    return tuple(layout)


def check_tensors(
    layout: tuple[FusedTensor, ...],
    places: Mapping[str, TensorPlace],
    *,
    shown: str,
    file_names: Mapping[str, str] | None = None,
) -> None:
    """Raise BadModelFile, naming the tensors, unless `places` are exactly what `layout` needs.

    `file_names` spell source names as the file does, where it has other names.
    """
    needed = {part.name: part.shape for fused in layout for part in fused.parts}
    spelled = file_names or {}
    if missing := [spelled.get(name, name) for name in needed if name not in places]:
        raise BadModelFile(
            f"{shown} lacks {_counted(missing)}.", hint="Fetch the model again, all of its files."
        )
    for name, shape in needed.items():
        if places[name].shape != shape:
            raise BadModelFile(
                f"{shown}: the tensor {visible(places[name].name)} has shape "
                f"{list(places[name].shape)}, its config asks for {list(shape)}.",
                hint="Config and weights do not belong together: fetch the model again.",
            )
    extra = [place.name for name, place in places.items() if name not in needed | {ROPE_FACTORS: 0}]
    if extra:
        raise BadModelFile(
            f"{shown} has {_counted(extra)} that its architecture does not use.",
            hint="The answer would be wrong without them: choose a plain version of the model.",
        )


def _layer(config: DecoderConfig, target: str, source: str) -> list[FusedTensor]:
    hidden, inter, dim = config.hidden_size, config.intermediate_size, config.head_dim
    q, kv = config.num_heads * dim, config.num_kv_heads * dim
    attention, mlp = source + "self_attn.", source + "mlp."

    def qkv(end: str, *columns: int) -> FusedTensor:
        return FusedTensor(
            f"{target}qkv.{end}",
            (
                SourceTensor(f"{attention}q_proj.{end}", (q, *columns), config.num_heads),
                SourceTensor(f"{attention}k_proj.{end}", (kv, *columns), config.num_kv_heads),
                SourceTensor(f"{attention}v_proj.{end}", (kv, *columns)),
            ),
        )

    layer = [qkv("weight", hidden)]
    if config.has_pre_norms:
        layer.insert(
            0, _single(target + "attn_norm.weight", source + "input_layernorm.weight", (hidden,))
        )
    if config.has_qkv_bias:
        layer.append(qkv("bias"))
    if config.has_qk_norm:
        widths = (q, kv) if config.has_wide_qk_norm else (dim, dim)
        layer.append(_single(target + "q_norm.weight", attention + "q_norm.weight", widths[:1]))
        layer.append(_single(target + "k_norm.weight", attention + "k_norm.weight", widths[1:]))
    gate_up = tuple(
        SourceTensor(f"{mlp}{name}_proj.weight", (inter, hidden)) for name in ("gate", "up")
    )
    before_mlp, behind_attention, behind_mlp = _norms(config, target, source)
    return [
        *layer,
        _single(target + "o.weight", attention + "o_proj.weight", (hidden, q)),
        *behind_attention,
        *before_mlp,
        FusedTensor(target + "gate_up.weight", gate_up),
        _single(target + "down.weight", mlp + "down_proj.weight", (hidden, inter)),
        *behind_mlp,
    ]


def _norms(
    config: DecoderConfig, target: str, source: str
) -> tuple[list[FusedTensor], list[FusedTensor], list[FusedTensor]]:
    """Return the norms before the MLP, behind attention and behind the MLP.

    Where there are no others, the first one is named after what is before it.
    """

    def norm(name: str, source_name: str) -> FusedTensor:
        return _single(f"{target}{name}.weight", f"{source}{source_name}.weight", shape)

    shape = (config.hidden_size,)
    if not config.has_post_norms:
        return [norm("mlp_norm", "post_attention_layernorm")], [], []
    return (
        [norm("mlp_norm", "pre_feedforward_layernorm")] if config.has_pre_norms else [],
        [norm("attn_post_norm", "post_attention_layernorm")],
        [norm("mlp_post_norm", "post_feedforward_layernorm")],
    )


def _single(name: str, source: str, shape: tuple[int, ...]) -> FusedTensor:
    return FusedTensor(name, (SourceTensor(source, shape),))


def _counted(names: list[str]) -> str:
    shown = ", ".join(visible(name) for name in names[:_MAX_NAMES_SHOWN])
    if len(names) == 1:
        return f"the tensor {shown}"
    more = f" and {len(names) - _MAX_NAMES_SHOWN} more" if len(names) > _MAX_NAMES_SHOWN else ""
    return f"the tensors {shown}{more}"
