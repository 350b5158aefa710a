"""8-bit weights and activations: the fused state dict, turned so that nothing sticks out.

A few channels of a transformer carry numbers a hundred times as large as the others; rounded to
8 bits with them, the others are lost. So the model is turned first, as in QuaRot (arXiv
2404.00456): every vector that a projection reads is multiplied, block by block, by a Hadamard
matrix H, which spreads what sticks out over its block. H is its own inverse and keeps lengths, so
an RMS norm does not notice. Where the norms' weights are folded into the projections behind them,
all turns but one are folded into weights, too; only what `down` reads is turned while it runs.

A model that normalises what it adds (Gemma) has channels in its hidden states that are louder still
by far, which the weights of the norms before projections take back. With those folded away and the
loud ones turned, its perplexity is 13 to 40 times what it was. So its hidden states stay as they
are, norms have their weights, and what a projection reads is turned behind the norm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableMapping

import torch

from localpaged.decoder_config import DecoderConfig

LARGEST_BLOCK = 64
SMALLEST_BLOCK = 16
"""Smaller blocks spread too little."""

LIMIT = 127
GROUP = 32
"""Numbers that share a scale where weights are in groups, see `grouped_matrix`."""

ROWS_AT_ONCE = 4_096

INSTRUCTIONS = {"avx512_vnni": "AVX-512 VNNI", "avx_vnni": "AVX-VNNI", "avx2": "AVX2"}
"""Names of what steps are compiled with, by torch's names; the fastest first."""

PROJECTIONS = ("qkv.weight", "o.weight", "gate_up.weight", "down.weight", "head.weight")


def can_be_eight_bit(config: DecoderConfig) -> bool:
    """Whether this processor adds products of 8-bit numbers fast, and the model allows it."""
    if not config.has_pre_norms or config.has_wide_qk_norm:
        return False  # steps that are compiled normalise what is read, and heads one by one
    widths = (config.hidden_size, config.intermediate_size, config.head_dim)
    blocks = [block_of(width) for width in widths]
    return has_team_steps() and min(blocks) >= SMALLEST_BLOCK


def can_be_grouped(config: DecoderConfig) -> bool:
    """Whether this processor computes with weights in groups, and the model is whole groups."""
    widths = (config.hidden_size, config.intermediate_size, config.num_heads * config.head_dim)
    are_whole = (
        all(width % GROUP == 0 for width in widths) and config.head_dim % SMALLEST_BLOCK == 0
    )
    return has_team_steps() and are_whole


def has_team_steps() -> bool:
    """Whether this processor has the instructions, and the system the calls, of `team_decoder`."""
    return team_instruction() is not None and os.name == "posix"


def team_instruction() -> str | None:
    """Return the name of the fastest instructions for products of 8-bit numbers; None without."""
    abilities = torch.cpu.get_capabilities()
    return next((name for key, name in INSTRUCTIONS.items() if abilities.get(key)), None)


def to_eight_bit(
    config: DecoderConfig, state: MutableMapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the state dict with 8-bit projections, see `native`; `state` is emptied on the way.

    Of a state dict that reads what it is asked for no more than a layer is there in 16 bits.
    """
    done: dict[str, torch.Tensor] = {}
    for part in _turned_parts(config, state):
        while part:
            name, tensor = part.popitem()
            if name.endswith(PROJECTIONS):
                name = name.removesuffix(".weight")
                done[f"{name}.eight_bit"], done[f"{name}.eight_bit_scales"] = _rounded(tensor)
            else:
                done[name] = tensor
            del tensor
    return done


def turned(
    config: DecoderConfig, state: MutableMapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return a state dict that computes the same, but for rounding: turned, with norms folded in.

    `state` is emptied on the way, so that no tensor is held twice for long.
    """
    parts = _turned_parts(config, state)
    return {name: tensor for part in parts for name, tensor in part.items()}


def _turned_parts(
    config: DecoderConfig, state: MutableMapping[str, torch.Tensor]
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield what is turned: the head, the embeddings, then layer by layer."""
    hidden = hadamard(block_of(config.hidden_size))
    inner = hadamard(block_of(config.intermediate_size))
    if "rope_factors" in state:
        yield {"rope_factors": state.pop("rope_factors")}
    embed = state.pop("embed.weight")
    dtype = embed.dtype
    head = embed if config.is_tied else state.pop("head.weight")
    norm = state.pop("norm.weight")
    folded: torch.Tensor | float = norm.float()
    if config.has_post_norms:
        folded = 1.0
        yield {"read.turn": hidden, "norm.weight": norm}
    yield {
        "head.weight": _in_pieces(head, lambda rows: turn(rows.float() * folded, hidden).to(dtype))
    }
    del head
    if config.has_post_norms:
        yield {"embed.weight": embed}
    else:
        yield {"embed.weight": _in_pieces(embed, lambda rows: turn(rows.float(), hidden).to(dtype))}
    del embed
    for index in range(config.num_layers):
        prefix = f"layers.{index}."
        names = [name for name in state if name.startswith(prefix)]
        # nothing of a layer in float32 has a name here, or it would be there while it is rounded
        yield {
            prefix + name: tensor if name == "down.turn" else tensor.to(dtype)
            for name, tensor in _turned_layer(
                config,
                {name.removeprefix(prefix): state.pop(name).float() for name in names},
                hidden,
                inner,
            ).items()
        }


def hadamard(size: int) -> torch.Tensor:
    """Return the normalised Hadamard matrix of a power of two; it is its own inverse."""
    matrix = torch.ones(1, 1)
    while matrix.shape[0] < size:
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
    return matrix / size**0.5


def turn(rows: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """Multiply every block of every row [rows, width] by a Hadamard matrix."""
    return (rows.reshape(-1, block.shape[0]) @ block).view(rows.shape)


def _turned_layer(
    config: DecoderConfig, layer: dict[str, torch.Tensor], hidden: torch.Tensor, inner: torch.Tensor
) -> dict[str, torch.Tensor]:
    heads = hadamard(block_of(config.head_dim))
    for name, norm in (("qkv.weight", "attn_norm.weight"), ("gate_up.weight", "mlp_norm.weight")):
        if not config.has_post_norms:
            layer[name] = layer[name] * layer.pop(norm)
        layer[name] = turn(layer[name], hidden)
    first_value = (config.num_heads + config.num_kv_heads) * config.head_dim
    values = layer["qkv.weight"][first_value:]
    values[:] = turn(values.t(), heads).t()
    if (bias := layer.get("qkv.bias")) is not None:
        bias[first_value:] = turn(bias[None, first_value:], heads)[0]
    for name, block in (("o.weight", heads), ("down.weight", inner)):
        layer[name] = turn(layer[name], block)
        if not config.has_post_norms:
            layer[name] = turn(layer[name].t(), hidden).t()
    layer["down.turn"] = inner
    return layer


def block_of(width: int) -> int:
    """Return the size of the matrix that rows of a width are turned with."""
    return min(width & -width, LARGEST_BLOCK)


def _rounded(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return int8 numbers [out, in] and float32 scales [out]."""
    # all at once, a vocabulary's matrix would take six times its own bytes
    scales = _in_pieces(weight, lambda rows: rows.float().abs().amax(dim=1) / LIMIT)
    scales.clamp_(min=1e-12)
    numbers = torch.empty(weight.shape, dtype=torch.int8)
    for start in range(0, len(weight), ROWS_AT_ONCE):
        piece = slice(start, start + ROWS_AT_ONCE)
        numbers[piece] = (weight[piece].float() / scales[piece].unsqueeze(1)).round().char()
    return numbers, scales


def _in_pieces(matrix: torch.Tensor, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return what `make` makes of all rows, which it is given by the thousand."""
    first = make(matrix[:ROWS_AT_ONCE])
    made = torch.empty((len(matrix), *first.shape[1:]), dtype=first.dtype)
    made[:ROWS_AT_ONCE] = first
    for start in range(ROWS_AT_ONCE, len(matrix), ROWS_AT_ONCE):
        made[start : start + ROWS_AT_ONCE] = make(matrix[start : start + ROWS_AT_ONCE])
    return made
