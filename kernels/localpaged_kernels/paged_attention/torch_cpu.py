"""Paged attention on the CPU: gather the blocks, then torch's fused attention.

All decodes run as one padded call in which a KV head's query group takes the place of the
query length, so that K and V are read once a group; those that share a long beginning read that
together, see `cascade`. Each prompt chunk is a call of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from localpaged_kernels.paged_attention.cascade import Cascade, cascade_of, decode_group

if TYPE_CHECKING:
    from localpaged_kernels.paged_attention.batch import AttentionBatch


JOINED_QUERIES = 64
"""A mask is repeated for every head of a group: only worth it while it is small."""


def paged_attention(
    queries: torch.Tensor,
    kv: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    window: int | None = None,
    kv_scales: torch.Tensor | None = None,
) -> torch.Tensor:
    """Do what `reference.paged_attention` does; same arguments, same result."""
    outputs: list[torch.Tensor] = []
    cache = _Cache(kv, kv_scales, queries.dtype)
    if batch.num_decodes:
        decodes = queries[: batch.num_decodes]
        is_whole = window is None or window >= max(batch.seq_lens[: batch.num_decodes])
        cascade = cascade_of(batch) if is_whole and batch.num_decodes > 1 else None
        outputs.append(
            _decode(decodes, cache, batch, scale, window)
            if cascade is None
            else _decode_cascade(decodes, cache, batch, cascade, scale)
        )
    first = batch.num_decodes
    for row in range(batch.num_decodes, len(batch.query_lens)):
        last = first + batch.query_lens[row]
        outputs.append(_prefill(queries[first:last], cache, batch, row, scale, window))
        first = last
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


@dataclass(frozen=True, slots=True)
class _Cache:
    """A cache and the dtype to read it in; what is read of int8 is multiplied by its scales."""

    kv: torch.Tensor
    scales: torch.Tensor | None
    dtype: torch.dtype

    @property
    def kv_heads(self) -> int:
        return int(self.kv.shape[3])

    def blocks(self, table: torch.Tensor, run: range | None = None) -> torch.Tensor:
        """Return [blocks, block_size, 2, kv_heads, head_dim]; a view where nothing is converted."""
        read = self.kv.index_select(0, table) if run is None else self.kv[run.start : run.stop]
        if self.scales is None:
            return read.to(self.dtype)
        scales = (
            self.scales.index_select(0, table) if run is None else self.scales[run.start : run.stop]
        )
        return read.to(self.dtype).mul_(scales.to(self.dtype).unsqueeze(-1))


def _decode(
    queries: torch.Tensor, cache: _Cache, batch: AttentionBatch, scale: float, window: int | None
) -> torch.Tensor:
    if len(queries) == 1:  # nothing is padded: cut instead of masking
        end = batch.seq_lens[0]
        start = 0 if window is None else max(0, end - window)
        tokens = _tokens_of(cache, batch, 0)[start:end].unsqueeze(0)
        return _attend_grouped(queries, tokens, None, scale)
    mask = _decode_mask(batch, window, queries.dtype)
    return _decode_padded(queries, cache, batch.block_tables, mask, scale=scale)


def _decode_cascade(
    queries: torch.Tensor, cache: _Cache, batch: AttentionBatch, cascade: Cascade, scale: float
) -> torch.Tensor:
    out = torch.empty_like(queries)
    for group in cascade.groups:
        out[group.rows] = decode_group(queries[group.rows], cache, group, scale=scale)
    rest = cascade.rest
    if len(rest):
        mask = _decode_mask(batch, None, queries.dtype)[rest]
        out[rest] = _decode_padded(
            queries[rest], cache, batch.block_tables[rest], mask, scale=scale
        )
    return out


def _decode_padded(
    queries: torch.Tensor,
    cache: _Cache,
    block_tables: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scale: float,
) -> torch.Tensor:
    rows, dim = queries.shape[0], queries.shape[2]
    tokens = cache.blocks(block_tables.view(-1)).view(rows, -1, 2, cache.kv_heads, dim)
    return _attend_grouped(queries, tokens, mask, scale)


def _attend_grouped(
    queries: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """Attend with [rows, heads, dim] to [rows, tokens, 2, kv_heads, dim]."""
    rows, heads, dim = queries.shape
    kv_heads = tokens.shape[3]
    keys, values = tokens.permute(2, 0, 3, 1, 4)  # each [rows, kv_heads, tokens, dim]
    grouped = queries.view(rows, kv_heads, heads // kv_heads, dim)
    out = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scale)
    return out.reshape(rows, heads, dim)


def _prefill(
    queries: torch.Tensor,
    cache: _Cache,
    batch: AttentionBatch,
    row: int,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    length, heads, dim = queries.shape
    kv_heads, seq_len = cache.kv_heads, batch.seq_lens[row]
    group = heads // kv_heads
    is_whole = length == seq_len and (window is None or window >= seq_len)
    # Few queries: those of a group become rows of one product, and K and V are read once for them.
    is_joined = not is_whole and length <= JOINED_QUERIES
    repeats = group if is_joined else 1
    mask = None if is_whole else _prefill_mask(batch, row, window, queries.dtype, repeats)
    keys, values = _tokens_of(cache, batch, row)[:seq_len].permute(1, 2, 0, 3).unsqueeze(2)
    grouped = queries.view(length, kv_heads, group, dim).permute(1, 2, 0, 3)
    out = F.scaled_dot_product_attention(
        grouped.reshape(kv_heads, 1, -1, dim) if is_joined else grouped,
        keys if is_joined else keys.expand(-1, group, -1, -1),
        values if is_joined else values.expand(-1, group, -1, -1),
        attn_mask=mask,
        is_causal=is_whole,
        scale=scale,
    )
    by_query = out.view(kv_heads, group, length, dim).permute(2, 0, 1, 3)
    return by_query.reshape(length, heads, dim)


def _tokens_of(cache: _Cache, batch: AttentionBatch, row: int) -> torch.Tensor:
    """Return [tokens, 2, kv_heads, head_dim] of a row's blocks; a view where they are a run."""
    return cache.blocks(batch.tables[row], batch.runs[row]).flatten(0, 1)


def _decode_mask(batch: AttentionBatch, window: int | None, dtype: torch.dtype) -> torch.Tensor:
    """Return an additive mask [rows, 1, 1, widest × block_size], made once a step."""
    key = ("decode mask", window, dtype)
    if key not in batch.shared:
        ends = torch.tensor(batch.seq_lens[: batch.num_decodes]).unsqueeze(1)
        position = torch.arange(batch.block_tables.shape[1] * batch.block_size).unsqueeze(0)
        hidden = position >= ends
        if window is not None:
            hidden |= position < ends - window
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
        batch.shared[key] = mask[:, None, None, :]
    mask = batch.shared[key]
    assert isinstance(mask, torch.Tensor)
    return mask


def _prefill_mask(
    batch: AttentionBatch, row: int, window: int | None, dtype: torch.dtype, repeats: int
) -> torch.Tensor:
    """Return an additive mask [repeats × queries, tokens] for a chunk behind a prefix.

    It is made once a step.
    """
    key = ("prefill mask", row, window, dtype)
    if key not in batch.shared:
        length, seq_len = batch.query_lens[row], batch.seq_lens[row]
        own = torch.arange(seq_len - length, seq_len).unsqueeze(1)
        position = torch.arange(seq_len).unsqueeze(0)
        hidden = position > own
        if window is not None:
            hidden |= position <= own - window
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
        batch.shared[key] = mask.repeat(repeats, 1)
    mask = batch.shared[key]
    assert isinstance(mask, torch.Tensor)
    return mask
