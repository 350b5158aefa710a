"""Writes into the paged cache in plain torch; also the CPU path.

A cache of 8 bits, int8 or fp8 (e4m3), has a float32 scale for each token's K and V in each KV head:
the number that is meant is what is stored × scale. int8 rounds to the nearest of 255 steps,
symmetric about zero, fp8 to the nearest number of 4 significant bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged_kernels.errors import UnsupportedShape

if TYPE_CHECKING:
    import torch

INT8_LIMIT = 127
FP8_LIMIT = 448
"""The largest number of e4m3."""


def write_kv(
    kv: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    *,
    scales: torch.Tensor | None = None,
) -> None:
    """Store one K and one V row a token.

    kv [blocks, block_size, 2, kv_heads, head_dim], changed in place; keys and values
    [tokens, kv_heads, head_dim] of any float dtype; slots [tokens] int64, each
    block × block_size + offset and at most once. With `scales`
    [blocks, block_size, 2, kv_heads] float32, changed in place, kv is int8 or fp8. Raises
    UnsupportedShape when they do not fit.
    """
    check_scales(kv, scales)
    if keys.shape != values.shape or keys.shape[1:] != kv.shape[3:]:
        raise UnsupportedShape(
            f"keys {tuple(keys.shape)} and values {tuple(values.shape)} must be "
            f"[tokens, {kv.shape[3]}, {kv.shape[4]}]"
        )
    flat = kv.view(-1, *kv.shape[2:])
    for side, rows in enumerate((keys, values)):
        if scales is None:
            flat[:, side].index_copy_(0, slots, rows.to(kv.dtype))
        else:
            numbers, row_scales = quantise(rows, kv.dtype)
            # torch knows no indexes of fp8; the bits are the same.
            _bytes(flat)[:, side].index_copy_(0, slots, _bytes(numbers))
            scales.view(-1, *scales.shape[2:])[:, side].index_copy_(0, slots, row_scales)


def quantise(
    rows: torch.Tensor, dtype: torch.dtype | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return numbers like `rows` of an 8-bit dtype, int8 by default, and float32 scales.

    Scales are without the last dimension. The largest magnitude of a row becomes the dtype's
    largest. What is not finite makes its row's scale not finite, so that it stays visible.
    """
    wide = rows.float()
    is_fp8 = dtype is not None and dtype.is_floating_point
    limit = FP8_LIMIT if is_fp8 else INT8_LIMIT
    scales = wide.abs().amax(dim=-1) / limit
    steps = wide / scales.clamp(min=1e-30).unsqueeze(-1)
    if dtype is not None and is_fp8:
        return steps.nan_to_num_().clamp_(-limit, limit).to(dtype), scales
    return steps.round_().nan_to_num_().clamp_(-limit, limit).char(), scales


def check_scales(kv: torch.Tensor, scales: torch.Tensor | None) -> None:
    """Raise UnsupportedShape unless scales belong to an 8-bit cache and fit it."""
    if (scales is None) == (kv.dtype.itemsize > 1) and (
        scales is None or scales.shape == kv.shape[:-1]
    ):
        return
    got = "no scales" if scales is None else f"scales {tuple(scales.shape)}"
    raise UnsupportedShape(
        f"kv {tuple(kv.shape)} of {kv.dtype} with {got}; an int8 or fp8 cache needs scales "
        f"{tuple(kv.shape[:-1])}, any other none"
    )


def _bytes(numbers: torch.Tensor) -> torch.Tensor:
    import torch  # the package is imported where torch is not

    return numbers.view(torch.int8)


def copy_blocks(kv: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> None:
    """Copy whole blocks inside the cache, all reads before all writes.

    kv [layers, blocks, ...] contiguous, changed in place; sources and targets [copies] int64, no
    target twice.
    """
    flat = kv.view(kv.shape[0], kv.shape[1], -1)
    flat.index_copy_(1, targets, flat.index_select(1, sources))
