"""How attention is laid out on a card: rows, tiles, threads, and how far it reads ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from localpaged_kernels.launch import power_of_two

if TYPE_CHECKING:
    from localpaged_kernels.card import Card
    from localpaged_kernels.paged_attention.device_rows import DeviceRows

PROGRAMS_A_PROCESSOR = 2
"""Programs that keep one processor's memory pipeline busy; more parts only cost."""

LEAST_ROWS = 16
"""Rows of the smallest matrix that tensor cores multiply."""

LEAST_DIM = 64
"""Smaller heads get no longer tiles: their scores would be more than their keys."""

MANY_ROWS = 64
"""Rows of a prompt's matrix, unless its heads or numbers are large."""

LONG_TILE_NUMBERS = 8192
"""K's numbers in a decode's tile where memory is fast: what is done once a tile (waits, exchanges
between warps) would take longer than to read half of it there, and shared memory has room."""

FAR_STAGES, NEAR_STAGES = 5, 3
"""How far the compiler reads ahead. K and V are found by the block table, so one iteration reads
the table, a later one K and V, and one more computes. With five stages a tile is on its way while
the one before is computed; with three only the next piece of the table is."""

OTHER_SHARED_BYTES = 2048
"""What a program has in shared memory beside queries, weights and tiles: tables, the system's."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Numbers that attention is compiled for, and how it is laid out on the card."""

    dim: int
    block_m: int
    block_q: int
    tile: int
    num_warps: int
    num_stages: int


def shape_of(queries: torch.Tensor, kv: torch.Tensor, rows: DeviceRows, card: Card) -> Shape:
    """Return how attention of these shapes is laid out."""
    head_dim, group = queries.shape[2], queries.shape[1] // kv.shape[3]
    dim = max(power_of_two(head_dim), LEAST_ROWS)
    is_wide, is_large = queries.dtype == torch.float32, dim > 128
    is_narrow = is_wide or is_large or rows.starts is None
    block_m = max(power_of_two(group), LEAST_ROWS if is_narrow else MANY_ROWS)
    # Registers: what is converted is there twice, float32 is multiplied number by number, and
    # a head that is no power of two is masked. So these get more threads, or shorter tiles.
    is_converted, is_cut = kv.dtype.itemsize == 1, head_dim < dim
    is_full = block_m >= MANY_ROWS and (is_converted or is_cut)
    if is_wide:
        is_full = is_converted or block_m * dim > 2048
    is_short = is_wide or is_large or (is_full and is_converted)
    tile = 16 if is_short else 32
    is_roomy = not is_wide and block_m < MANY_ROWS and not (is_converted and is_cut)
    if rows.starts is None and card.has_fast_memory and is_roomy:
        tile = LONG_TILE_NUMBERS // max(dim, LEAST_DIM)
    return Shape(
        dim=dim,
        block_m=block_m,
        block_q=1 if rows.starts is None else block_m // group,
        tile=tile,
        num_warps=8 if is_full else 4,
        num_stages=_num_stages(block_m, dim, tile, kv, card, is_wide=is_wide),
    )


def _num_stages(
    block_m: int, dim: int, tile: int, kv: torch.Tensor, card: Card, *, is_wide: bool
) -> int:
    if is_wide:
        return 1 if kv.dtype.itemsize == 1 else 2
    both = 2 * 2 * tile * dim * kv.dtype.itemsize  # K and V of two tiles
    needed = both + 2 * block_m * (dim + tile) + OTHER_SHARED_BYTES
    return FAR_STAGES if PROGRAMS_A_PROCESSOR * needed <= card.shared_bytes else NEAR_STAGES
