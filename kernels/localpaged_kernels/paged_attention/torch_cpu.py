"""Paged attention on the CPU: gather the blocks, then torch's fused attention.

All decodes run as one padded call in which a KV head's query group takes the place of the
query length, so that K and V are read once a group; those that share a long beginning read that
together, see `cascade`. Each prompt chunk is a call of its own. Blocks that are before every
window are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from localpaged_kernels.paged_attention.capped import capped_attention, capped_chunk
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
    softcap: float | None = None,
) -> torch.Tensor:
    """Do what `reference.paged_attention` does; same arguments but sinks, same result."""
    outputs: list[torch.Tensor] = []
    cache = _Cache(kv, kv_scales, queries.dtype)
    terms = _Terms(scale, window, softcap)
    if batch.num_decodes:
        decodes = queries[: batch.num_decodes]
        longest = max(batch.seq_lens[: batch.num_decodes])
        own = terms if window is None or window < longest else _Terms(scale, None, softcap)
        can_share = own.window is None and softcap is None and batch.num_decodes > 1
        cascade = cascade_of(batch) if can_share else None
        outputs.append(
            _decode(decodes, cache, batch, own)
            if cascade is None
            else _decode_cascade(decodes, cache, batch, cascade, own)
        )
    first = batch.num_decodes
    for row in range(batch.num_decodes, len(batch.query_lens)):
        last = first + batch.query_lens[row]
        outputs.append(_prefill(queries[first:last], cache, batch, row, terms))
        first = last
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What is the same for all rows; see `reference.paged_attention`."""

    scale: float
    window: int | None
    softcap: float | None

    def first_block(self, first_query: int, block_size: int) -> int:
        """Return the first block that the query at a position, or a later one, looks at."""
        if self.window is None:
            return 0
        return max(0, first_query + 1 - self.window) // block_size


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
    queries: torch.Tensor, cache: _Cache, batch: AttentionBatch, terms: _Terms
) -> torch.Tensor:
    if len(queries) == 1:  # nothing is padded: cut instead of masking
        end, size = batch.seq_lens[0], batch.block_size
        start = 0 if terms.window is None else max(0, end - terms.window)
        first = terms.first_block(end - 1, size)
        tokens = _tokens_of(cache, batch, 0, first)[start - first * size : end - first * size]
        return _attend_grouped(queries, tokens.unsqueeze(0), None, terms)
    mask = _decode_mask(batch, terms.window, queries.dtype)
    return _decode_padded(queries, cache, _seen_tables(batch, terms.window).tables, mask, terms)


def _decode_cascade(
    queries: torch.Tensor, cache: _Cache, batch: AttentionBatch, cascade: Cascade, terms: _Terms
) -> torch.Tensor:
    out = torch.empty_like(queries)
    for group in cascade.groups:
        out[group.rows] = decode_group(queries[group.rows], cache, group, scale=terms.scale)
    rest = cascade.rest
    if len(rest):
        mask = _decode_mask(batch, None, queries.dtype)[rest]
        tables = _seen_tables(batch, None).tables[rest]
        out[rest] = _decode_padded(queries[rest], cache, tables, mask, terms)
    return out


def _decode_padded(
    queries: torch.Tensor,
    cache: _Cache,
    block_tables: torch.Tensor,
    mask: torch.Tensor | None,
    terms: _Terms,
) -> torch.Tensor:
    rows, dim = queries.shape[0], queries.shape[2]
    tokens = cache.blocks(block_tables.view(-1)).view(rows, -1, 2, cache.kv_heads, dim)
    return _attend_grouped(queries, tokens, mask, terms)


def _attend_grouped(
    queries: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor | None, terms: _Terms
) -> torch.Tensor:
    """Attend with [rows, heads, dim] to [rows, tokens, 2, kv_heads, dim]."""
    rows, heads, dim = queries.shape
    kv_heads = tokens.shape[3]
    keys, values = tokens.permute(2, 0, 3, 1, 4)  # each [rows, kv_heads, tokens, dim]
    grouped = queries.view(rows, kv_heads, heads // kv_heads, dim)
    scale, cap = terms.scale, terms.softcap
    if cap is not None:
        out = capped_attention(grouped, keys, values, mask, scale=scale, softcap=cap)
    else:
        out = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scale)
    return out.reshape(rows, heads, dim)


def _prefill(
    queries: torch.Tensor,
    cache: _Cache,
    batch: AttentionBatch,
    row: int,
    terms: _Terms,
) -> torch.Tensor:
    length, heads, dim = queries.shape
    kv_heads, seq_len, window = cache.kv_heads, batch.seq_lens[row], terms.window
    group = heads // kv_heads
    first = terms.first_block(seq_len - length, batch.block_size)
    tokens = _tokens_of(cache, batch, row, first)[: seq_len - first * batch.block_size]
    grouped = queries.view(length, kv_heads, group, dim).permute(1, 2, 0, 3)
    if terms.softcap is not None:
        keys, values = tokens.permute(1, 2, 0, 3)
        mask = _prefill_mask(batch, row, window, queries.dtype, 1)
        capped = capped_chunk(grouped, keys, values, mask, scale=terms.scale, softcap=terms.softcap)
        return capped.permute(2, 0, 1, 3).reshape(length, heads, dim)
    is_whole = length == seq_len and (window is None or window >= seq_len)
    # Few queries: those of a group become rows of one product, and K and V are read once for them.
    is_joined = not is_whole and length <= JOINED_QUERIES
    repeats = group if is_joined else 1
    mask = None if is_whole else _prefill_mask(batch, row, window, queries.dtype, repeats)
    keys, values = tokens.permute(1, 2, 0, 3).unsqueeze(2)
    out = F.scaled_dot_product_attention(
        grouped.reshape(kv_heads, 1, -1, dim) if is_joined else grouped,
        keys if is_joined else keys.expand(-1, group, -1, -1),
        values if is_joined else values.expand(-1, group, -1, -1),
        attn_mask=mask,
        is_causal=is_whole,
        scale=terms.scale,
    )
    by_query = out.view(kv_heads, group, length, dim).permute(2, 0, 1, 3)
    return by_query.reshape(length, heads, dim)


def _tokens_of(cache: _Cache, batch: AttentionBatch, row: int, first: int) -> torch.Tensor:
    """Return [tokens, 2, kv_heads, head_dim] of a row's blocks from its `first` on.

    A view where they are a run.
    """
    run = batch.runs[row]
    return cache.blocks(batch.tables[row][first:], None if run is None else run[first:]).flatten(
        0, 1
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What decodes look at: blocks [rows, widest], and the position [rows, 1] of the first."""

    tables: torch.Tensor
    starts: torch.Tensor


def _seen_tables(batch: AttentionBatch, window: int | None) -> _Seen:
    """Return the decodes' tables without what is before every window, made once a step."""
    key = ("seen tables", window)
    if key not in batch.shared:
        ends, size = (
            torch.tensor(batch.seq_lens[: batch.num_decodes]).unsqueeze(1),
            batch.block_size,
        )
        firsts = torch.zeros_like(ends) if window is None else (ends - window).clamp_(0) // size
        widest = int((-(-ends // size) - firsts).max())
        places = firsts + torch.arange(widest)
        # what is behind a table's end is masked, whatever it is
        tables = batch.block_tables.gather(1, places.clamp_(max=batch.block_tables.shape[1] - 1))
        batch.shared[key] = _Seen(tables, firsts * size)
    seen = batch.shared[key]
    assert isinstance(seen, _Seen)
    return seen


def _decode_mask(batch: AttentionBatch, window: int | None, dtype: torch.dtype) -> torch.Tensor:
    """Return an additive mask [rows, 1, 1, tokens] for `_seen_tables`, made once a step."""
    key = ("decode mask", window, dtype)
    if key not in batch.shared:
        ends = torch.tensor(batch.seq_lens[: batch.num_decodes]).unsqueeze(1)
        seen = _seen_tables(batch, window)
        position = seen.starts + torch.arange(seen.tables.shape[1] * batch.block_size)
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

    It begins with the first block that is looked at, and is made once a step.
    """
    key = ("prefill mask", row, window, dtype, repeats)
    if key not in batch.shared:
        length, seq_len = batch.query_lens[row], batch.seq_lens[row]
        own = torch.arange(seq_len - length, seq_len).unsqueeze(1)
        first = _Terms(1.0, window, None).first_block(seq_len - length, batch.block_size)
        position = torch.arange(first * batch.block_size, seq_len).unsqueeze(0)
        hidden = position > own
        if window is not None:
            hidden |= position <= own - window
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
        batch.shared[key] = mask.repeat(repeats, 1)
    mask = batch.shared[key]
    assert isinstance(mask, torch.Tensor)
    return mask
