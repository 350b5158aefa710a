"""What a state dict in 8 bits has: names, shapes and dtypes, as `eight_bit` makes them.

Steps are compiled for these and look at nothing again, so what was kept in a file is compared.
"""

from __future__ import annotations

import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.eight_bit import block_of

Layout = dict[str, tuple[tuple[int, ...], torch.dtype]]


def rounded_layout(config: DecoderConfig, dtype: torch.dtype, *, has_rope_factors: bool) -> Layout:
    """Return shape and dtype of every tensor of `eight_bit.to_eight_bit`, of a state in `dtype`."""
    hidden = config.hidden_size
    layout: Layout = {"embed.weight": ((config.vocab_size, hidden), dtype)}
    layout |= _projection("head", config.vocab_size, hidden)
    if has_rope_factors:
        layout["rope_factors"] = ((config.head_dim // 2,), torch.float32)
    if config.has_post_norms:
        layout["norm.weight"] = ((hidden,), dtype)
        layout["read.turn"] = _turn(hidden)
    for index in range(config.num_layers):
        layout |= _layer(config, f"layers.{index}.", dtype)
    return layout


def _layer(config: DecoderConfig, prefix: str, dtype: torch.dtype) -> Layout:
    hidden, inner = config.hidden_size, config.intermediate_size
    layout = (
        _projection(f"{prefix}qkv", config.qkv_rows, hidden)
        | _projection(f"{prefix}o", hidden, config.num_heads * config.head_dim)
        | _projection(f"{prefix}gate_up", 2 * inner, hidden)
        | _projection(f"{prefix}down", hidden, inner)
        | {f"{prefix}down.turn": _turn(inner)}
    )
    vectors = {"qkv.bias": config.qkv_rows} if config.has_qkv_bias else {}
    if config.has_qk_norm:
        vectors |= dict.fromkeys(("q_norm.weight", "k_norm.weight"), config.head_dim)
    if config.has_post_norms:
        names = ("attn_norm", "attn_post_norm", "mlp_norm", "mlp_post_norm")
        vectors |= dict.fromkeys([f"{name}.weight" for name in names], hidden)
    return layout | {prefix + name: ((size,), dtype) for name, size in vectors.items()}


def _projection(name: str, rows: int, columns: int) -> Layout:
    return {
        f"{name}.eight_bit": ((rows, columns), torch.int8),
        f"{name}.eight_bit_scales": ((rows,), torch.float32),
    }


def _turn(width: int) -> tuple[tuple[int, ...], torch.dtype]:
    return (block_of(width), block_of(width)), torch.float32
