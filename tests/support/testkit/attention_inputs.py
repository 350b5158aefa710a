"""Queries, a cache and block tables for attention, in which whatever nobody wrote is loud."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from localpaged_kernels import AttentionBatch

NUM_BLOCKS = 64
LOUD = 1e4


def run_of(table: torch.Tensor) -> range | None:
    """Return the table as a range where its blocks lie side by side."""
    first, last = int(table[0]), int(table[-1])
    return range(first, last + 1) if table.tolist() == list(range(first, last + 1)) else None


def build(
    rows: Sequence[tuple[int, int]],
    *,
    is_shuffled: bool = True,
    block_size: int = 16,
    kv_heads: int = 2,
    group: int = 2,
    dim: int = 32,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, AttentionBatch]:
    """Build inputs for rows of (query_len, seq_len); what nobody wrote is loud but finite."""
    generator = torch.Generator().manual_seed(seed)
    order = list(range(2, NUM_BLOCKS))
    if is_shuffled:
        random.Random(seed).shuffle(order)
    else:
        order.reverse()
    kv = torch.full((NUM_BLOCKS, block_size, 2, kv_heads, dim), LOUD, dtype=dtype)
    kv[0] = 0
    tables = []
    for _, seq_len in rows:
        table = torch.tensor([order.pop() for _ in range(-(-seq_len // block_size))])
        for position in range(seq_len):
            block, offset = table[position // block_size], position % block_size
            kv[block, offset] = torch.randn(2, kv_heads, dim, generator=generator).to(dtype)
        tables.append(table)
    num_decodes = sum(query_len == 1 for query_len, _ in rows)
    widest = max((len(t) for t in tables[:num_decodes]), default=0)
    padded = torch.zeros(num_decodes, widest, dtype=torch.int64)
    for i, table in enumerate(tables[:num_decodes]):
        padded[i, : len(table)] = table
    batch = AttentionBatch(
        tables=tuple(tables),
        runs=tuple(run_of(table) for table in tables),
        block_tables=padded,
        query_lens=tuple(q for q, _ in rows),
        seq_lens=tuple(s for _, s in rows),
        num_decodes=num_decodes,
        block_size=block_size,
    )
    queries = torch.randn(batch.num_queries, kv_heads * group, dim, generator=generator).to(dtype)
    return queries, kv, batch


ROWS = {
    "one decode": [(1, 1)],
    "decode at a block's end": [(1, 16)],
    "decodes of all lengths": [(1, 1), (1, 15), (1, 16), (1, 17), (1, 63), (1, 100)],
    "whole prompt": [(37, 37)],
    "chunk behind a prefix": [(5, 41)],
    "mixed": [(1, 33), (1, 7), (16, 16), (3, 50), (2, 2)],
}
