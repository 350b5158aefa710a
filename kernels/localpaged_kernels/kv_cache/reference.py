"""Writes into the paged cache in plain torch; also the CPU path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged_kernels.errors import UnsupportedShape

if TYPE_CHECKING:
    import torch


def write_kv(
    kv: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor
) -> None:
    """Store one K and one V row a token.

    kv [blocks, block_size, 2, kv_heads, head_dim], changed in place; keys and values
    [tokens, kv_heads, head_dim] of the same dtype; slots [tokens] int64, each
    block × block_size + offset and at most once. Raises UnsupportedShape when they do not fit.
    """
    if keys.shape != values.shape or keys.shape[1:] != kv.shape[3:]:
        raise UnsupportedShape(
            f"keys {tuple(keys.shape)} and values {tuple(values.shape)} must be "
            f"[tokens, {kv.shape[3]}, {kv.shape[4]}]"
        )
    flat = kv.view(-1, *kv.shape[2:])
    flat[:, 0].index_copy_(0, slots, keys)
    flat[:, 1].index_copy_(0, slots, values)


def copy_blocks(kv: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> None:
    """Copy whole blocks inside the cache, all reads before all writes.

    kv [layers, blocks, ...] contiguous, changed in place; sources and targets [copies] int64, no
    target twice.
    """
    flat = kv.view(kv.shape[0], kv.shape[1], -1)
    flat.index_copy_(1, targets, flat.index_select(1, sources))
