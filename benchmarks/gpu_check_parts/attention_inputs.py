"""Queries, a cache and tables for attention, in which what nobody wrote is not a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from localpaged_kernels import AttentionBatch
from localpaged_kernels.kv_cache.reference import quantise

SPARE_BLOCKS = 3
"""Blocks that are in nobody's table."""


@dataclass(frozen=True)
class Shape:
    """Heads, KV heads, numbers of a head; tokens of a block; what is computed and kept in."""

    heads: int = 16
    kv_heads: int = 8
    dim: int = 128
    block_size: int = 16
    dtype: torch.dtype = torch.bfloat16
    kv_dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Inputs:
    """What attention is called with; all on the CPU."""

    queries: torch.Tensor
    kv: torch.Tensor
    scales: torch.Tensor | None
    batch: AttentionBatch


def poisoned(
    rows: Sequence[tuple[int, int]], shape: Shape, *, shared_blocks: int = 0, members: int = 0
) -> Inputs:
    """Make inputs of rows (queries, tokens), those of one query first.

    The first `members` rows begin with the same `shared_blocks` blocks.
    """
    generator = torch.Generator().manual_seed(len(rows) + shape.dim)
    size = shape.block_size
    counts = [-(-tokens // size) for _, tokens in rows]
    num_blocks = sum(counts) + SPARE_BLOCKS
    order = (torch.randperm(num_blocks - 1, generator=generator) + 1).tolist()
    tables = [torch.tensor([order.pop() for _ in range(count)]) for count in counts]
    for table in tables[1:members]:
        table[:shared_blocks] = tables[0][:shared_blocks]
    kv = torch.randn(num_blocks, size, 2, shape.kv_heads, shape.dim, generator=generator)
    is_written = torch.zeros(num_blocks, size, dtype=torch.bool)
    for table, (_, tokens) in zip(tables, rows, strict=True):
        places = torch.arange(tokens)
        is_written[table[places // size], places % size] = True
    scales = None
    if shape.kv_dtype is None:
        kv = kv.to(shape.dtype)
        kv[~is_written] = float("nan")
    else:
        kv, scales = quantise(kv, shape.kv_dtype)
        scales[~is_written] = float("nan")
    queries = torch.randn(sum(q for q, _ in rows), shape.heads, shape.dim, generator=generator)
    return Inputs(queries.to(shape.dtype), kv, scales, batch_of(rows, tables, size))


def batch_of(
    rows: Sequence[tuple[int, int]], tables: Sequence[torch.Tensor], block_size: int
) -> AttentionBatch:
    """Return the step of rows (queries, tokens), those of one query first."""
    num_decodes = sum(queries == 1 for queries, _ in rows)
    decodes = list(tables[:num_decodes])
    padded = (
        torch.nn.utils.rnn.pad_sequence(decodes, batch_first=True)
        if decodes
        else torch.zeros(0, 0, dtype=torch.int64)
    )
    return AttentionBatch(
        tables=tuple(tables),
        runs=(None,) * len(tables),
        block_tables=padded,
        query_lens=tuple(queries for queries, _ in rows),
        seq_lens=tuple(tokens for _, tokens in rows),
        num_decodes=num_decodes,
        block_size=block_size,
    )


def far_away(inputs: Inputs, device: torch.device, least_elements: int) -> Inputs:
    """Return the inputs on a device, their blocks at the end of a cache of that many elements."""
    kv, batch = inputs.kv, inputs.batch
    num_blocks = least_elements // kv[0].numel() + kv.shape[0]
    shift = num_blocks - kv.shape[0]
    far = torch.zeros(num_blocks, *kv.shape[1:], dtype=kv.dtype, device=device)
    far[shift:] = kv.to(device)
    scales = inputs.scales
    if scales is not None:
        far_scales = torch.zeros(num_blocks, *scales.shape[1:], device=device)
        far_scales[shift:] = scales.to(device)
        scales = far_scales
    tables = tuple(table + shift for table in batch.tables)
    moved = replace(batch, tables=tables, block_tables=batch.block_tables + shift, shared={})
    return Inputs(inputs.queries.to(device), far, scales, moved)
