"""Launches of paged attention: how it is laid out on a card, in how many parts, with what.

A step's decodes are one launch, its prompt chunks another. Where sequences are few they are cut
into parts, so that all processors have work; the parts are put together by a second launch or by
whichever part is the last to be ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from localpaged_kernels.card import Card, card_of
from localpaged_kernels.launch import Launch, power_of_two
from localpaged_kernels.paged_attention.device_rows import DeviceRows
from localpaged_kernels.paged_attention.triton_shape import PROGRAMS_A_PROCESSOR, Shape, shape_of

MAX_SPLITS = 32
TOKENS_A_SPLIT, CHUNK_TOKENS_A_SPLIT = 64, 128
"""A part of fewer tokens is not worth being put together again."""

SPREAD = 4
"""So many times the parts that sequences of one length would take, for a long one among short."""

MERGED_NUMBERS = 4096
"""Numbers that a program which puts parts together has at once: 32 registers of a thread."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is the same for all rows; see `reference.paged_attention`."""

    scale: float
    window: int | None = None
    kv_scales: torch.Tensor | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None


def plan(
    out: torch.Tensor,
    queries: torch.Tensor,
    kv: torch.Tensor,
    rows: DeviceRows,
    terms: Terms,
    *,
    arrivals: torch.Tensor | None = None,
    card: Card | None = None,
    num_splits: int | None = None,
) -> tuple[Launch, ...]:
    """Return the launches that fill the rows' part of `out`, contiguous and like queries.

    With `arrivals` [blocks × kv_heads] int32, zero and left zero, the last part of a decode to be
    ready puts all together in the first launch. Lengths, tables and the like are read when it runs.
    """
    card = card or card_of(queries.device)
    shape = shape_of(queries, kv, rows, card)
    grid = (num_blocks(rows, shape), kv.shape[3])
    # A window leaves all long sequences the same to read.
    is_balanced = rows.kv_tokens is not None and terms.window is None
    if num_splits is None:
        num_splits = splits_for(
            grid[0] * grid[1], rows, kv, shape, card, window=terms.window, is_balanced=is_balanced
        )
    is_whole = num_splits == 1
    if rows.starts is not None:
        arrivals = None  # many queries would be put together one after the other
    slots = slots_for(queries, 0 if is_whole else num_splits)
    launch = attend_launch(
        out,
        queries,
        kv,
        rows,
        terms,
        shape,
        slots,
        grid=(*grid, num_splits),
        is_soft_fp8=is_soft_fp8(kv, card),
        arrivals=None if is_whole else arrivals,
        programs_a_head=programs_of(card) / kv.shape[3] if is_balanced else None,
    )
    if is_whole or arrivals is not None:
        return (launch,)
    return (launch, merge_launch(out, slots, terms.sinks, rows))


def is_soft_fp8(kv: torch.Tensor, card: Card) -> bool:
    """Return whether the bits of a cache's numbers have to be taken apart by hand."""
    return kv.dtype == torch.float8_e4m3fn and not card.has_fp8


def num_blocks(rows: DeviceRows, shape: Shape) -> int:
    """Return how many blocks of queries there can be, whatever the lengths are."""
    if rows.starts is None:
        return rows.num_rows
    return rows.num_queries // shape.block_q + rows.num_rows


def splits_for(
    programs: int,
    rows: DeviceRows,
    kv: torch.Tensor,
    shape: Shape,
    card: Card,
    *,
    window: int | None = None,
    is_balanced: bool = False,
) -> int:
    """Return in how many parts each sequence is cut, a power of two; from widths, not lengths.

    Where the kernel gives each sequence its share they are the most that one may have.
    """
    idle = programs_of(card) * (SPREAD if is_balanced else 1) // max(programs, 1)
    longest = int(rows.tables.shape[1] * kv.shape[1])
    if window is not None:
        longest = min(longest, window + shape.tile)
    least = max(TOKENS_A_SPLIT if rows.starts is None else CHUNK_TOKENS_A_SPLIT, shape.tile)
    most = min(idle, longest // least, MAX_SPLITS)
    return 1 << max(most, 1).bit_length() - 1


def programs_of(card: Card) -> int:
    """Return how many programs keep a card's memory busy."""
    return PROGRAMS_A_PROCESSOR * card.num_processors


@dataclass(frozen=True, slots=True)
class Slots:
    """Room for parts: sums of V [queries, heads, slots, dim], greatest scores, sums of weights."""

    parts: torch.Tensor
    tops: torch.Tensor
    sums: torch.Tensor

    @property
    def count(self) -> int:
        """Parts of each query and head."""
        return int(self.parts.shape[2])

    def args(self) -> Mapping[str, torch.Tensor]:
        """Return the kernels' arguments."""
        return {"parts_ptr": self.parts, "tops_ptr": self.tops, "sums_ptr": self.sums}


def slots_for(queries: torch.Tensor, count: int) -> Slots:
    """Return room for so many parts of each query and head; nothing is in there yet."""
    num_queries, heads, head_dim = queries.shape
    new = queries.new_empty
    return Slots(
        new(num_queries, heads, count, head_dim, dtype=torch.float32),
        new(num_queries, heads, count, dtype=torch.float32),
        new(num_queries, heads, count, dtype=torch.float32),
    )


def attend_launch(
    out: torch.Tensor,
    queries: torch.Tensor,
    kv: torch.Tensor,
    rows: DeviceRows,
    terms: Terms,
    shape: Shape,
    slots: Slots,
    *,
    grid: tuple[int, int, int],
    is_soft_fp8: bool,
    arrivals: torch.Tensor | None = None,
    first_slot: int = 0,
    skips: torch.Tensor | None = None,
    members: torch.Tensor | None = None,
    programs_a_head: float | None = None,
) -> Launch:
    """Return the launch that attends and fills `out`, or, where there are slots, those.

    `skips` [rows] int32 are tokens at a sequence's beginning that another launch attends to. With
    `members` int32 the rows are groups of sequences and their queries those that it names. Where
    `programs_a_head` are known each decode has its share of them as parts, not all the same.
    """
    from localpaged_kernels.paged_attention.triton_kernel import attend

    kv_scales, sinks = terms.kv_scales, terms.sinks
    assert queries.stride(1) == kv.stride(3) == queries.shape[2], "heads lie side by side"
    assert kv.stride(0) < 2**31 or kv.shape[0] == 1, "within a block 32 bits suffice"
    is_balanced = programs_a_head is not None and slots.count > 0
    group_rows = power_of_two(queries.shape[1] // kv.shape[3])
    args: dict[str, Any] = {
        "out_ptr": out,
        **slots.args(),
        "arrivals_ptr": arrivals,
        "sinks_ptr": sinks,
        "queries_ptr": queries,
        "kv_ptr": kv.view(torch.uint8) if is_soft_fp8 else kv,
        "scales_ptr": kv_scales,
        "tables_ptr": rows.tables,
        "starts_ptr": rows.starts,
        "lens_ptr": rows.lens,
        "skips_ptr": skips,
        "members_ptr": members,
        "kv_tokens_ptr": rows.kv_tokens if is_balanced else None,
        "num_rows": rows.num_rows if rows.starts is None else len(rows.starts) - 1,
        "first_query": rows.first_query,
        "table_stride": rows.tables.stride(0),
        "query_stride": queries.stride(0),
        "query_head_stride": queries.stride(1),
        "block_stride": kv.stride(0),
        "token_stride": kv.stride(1),
        "side_stride": kv.stride(2),
        "head_stride": kv.stride(3),
        "scale_block_stride": 0 if kv_scales is None else kv_scales.stride(0),
        "scale_token_stride": 0 if kv_scales is None else kv_scales.stride(1),
        "scale_side_stride": 0 if kv_scales is None else kv_scales.stride(2),
        "scale": float(terms.scale),
        "softcap": float(terms.softcap or 0.0),
        "window": terms.window or 0,
        "num_splits": grid[2],
        "programs_a_head": float(programs_a_head or 0.0),
        "first_slot": first_slot,
        "num_slots": slots.count,
    }
    constants = {
        "HEADS": queries.shape[1],
        "GROUP": queries.shape[1] // kv.shape[3],
        "HEAD_DIM": queries.shape[2],
        "DIM": shape.dim,
        "BLOCK_SIZE": kv.shape[1],
        "BLOCK_M": shape.block_m,
        "BLOCK_Q": shape.block_q,
        "TILE": shape.tile,
        "GROUP_ROWS": group_rows,
        "AT_ONCE": max(MERGED_NUMBERS // (group_rows * shape.dim), 1),
        "IS_ONE_QUERY": rows.starts is None,
        "IS_BALANCED": is_balanced,
        "IS_SHARED": members is not None,
        "IS_WHOLE": slots.count == 0,
        "IS_LAST_MERGING": arrivals is not None,
        "HAS_SKIPS": skips is not None,
        "HAS_WINDOW": terms.window is not None,
        "HAS_SOFTCAP": terms.softcap is not None,
        "HAS_SINKS": sinks is not None,
        "HAS_SCALES": kv_scales is not None,
        "IS_SOFT_FP8": is_soft_fp8,
        "IS_INTERPRETED": queries.device.type == "cpu",
        "IS_CHAINED": False,
    }
    return Launch(
        attend, grid, args, constants, shape.num_warps, shape.num_stages, is_unspilled=True
    )


def merge_launch(
    out: torch.Tensor,
    slots: Slots,
    sinks: torch.Tensor | None,
    rows: DeviceRows,
    *,
    most: int = MAX_SPLITS,
) -> Launch:
    """Return the launch that puts the parts of the rows' queries together, `most` or fewer."""
    from localpaged_kernels.paged_attention.triton_parts_kernel import merge

    heads, head_dim = out.shape[1:]
    first, last = rows.first_query, rows.first_query + rows.num_queries
    return Launch(
        merge,
        (rows.num_queries, heads),
        {
            "out_ptr": out[first:last],
            "parts_ptr": slots.parts[first:last],
            "tops_ptr": slots.tops[first:last],
            "sums_ptr": slots.sums[first:last],
            "sinks_ptr": sinks,
            "num_slots": slots.count,
        },
        {
            "HEADS": heads,
            "HEAD_DIM": head_dim,
            "DIM": power_of_two(head_dim),
            "SLOTS": most,
            "HAS_SINKS": sinks is not None,
        },
        num_warps=4,
    )
