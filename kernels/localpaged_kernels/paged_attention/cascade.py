"""Decodes that begin with the same blocks attend to those together, once (cascade attention).

A query's attention over two parts of its sequence can be put together from the two results and
the logarithms of their sums of weights. So the queries of all sequences that share a beginning
become rows of one product with its K and V, and each sequence adds only what is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from localpaged_kernels.paged_attention.beginnings import shared_beginnings

if TYPE_CHECKING:
    from localpaged_kernels.paged_attention.batch import AttentionBatch


class Cache(Protocol):
    """Reads blocks in the dtype that is computed in."""

    @property
    def dtype(self) -> torch.dtype:
        """What numbers are read as."""

    def blocks(self, table: torch.Tensor, run: range | None = None) -> torch.Tensor:
        """Return [blocks, block_size, 2, kv_heads, head_dim]."""


@dataclass(frozen=True, slots=True)
class Group:
    """Decodes that share their first blocks, and one or more tokens of their own behind them.

    `rows` [rows] int64 are their places among the decodes, `own_tables` [rows, widest] int64 the
    padded rest of their tables, `own_mask` additive [rows, 1, 1, widest × block_size] float32.
    """

    rows: torch.Tensor
    shared: torch.Tensor
    run: range | None
    own_tables: torch.Tensor
    own_mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class Cascade:
    """The groups of a step's decodes and the decodes that are in none, `rest` [rows] int64."""

    groups: tuple[Group, ...]
    rest: torch.Tensor


def cascade_of(batch: AttentionBatch) -> Cascade | None:
    """Return who shares a beginning that is worth it, found once a step; None for nobody."""
    if "cascade" not in batch.shared:
        batch.shared["cascade"] = _find(batch)
    found = batch.shared["cascade"]
    assert found is None or isinstance(found, Cascade)
    return found


def decode_group(
    queries: torch.Tensor, cache: Cache, group: Group, *, scale: float
) -> torch.Tensor:
    """Return the attention of a group's queries [rows, heads, head_dim]."""
    rows, heads, dim = queries.shape
    keys, values = cache.blocks(group.shared, group.run).flatten(0, 1).permute(1, 2, 0, 3)
    kv_heads = keys.shape[0]
    grouped = queries.view(rows, kv_heads, heads // kv_heads, dim)
    together = grouped.transpose(0, 1).reshape(1, kv_heads, -1, dim)
    out, sums = _attend(together, keys.unsqueeze(0), values.unsqueeze(0), None, scale)
    shared_out = out.view(kv_heads, rows, -1, dim).transpose(0, 1)
    shared_sums = sums.view(kv_heads, rows, -1).transpose(0, 1)
    own = cache.blocks(group.own_tables.view(-1)).view(rows, -1, 2, kv_heads, dim)
    own_keys, own_values = own.permute(2, 0, 3, 1, 4)
    mask = group.own_mask.to(cache.dtype)
    own_out, own_sums = _attend(grouped, own_keys, own_values, mask, scale)
    # exp(a) / (exp(a) + exp(b)), whatever their size
    share = (shared_sums - own_sums).sigmoid().unsqueeze(-1)
    merged = torch.lerp(own_out.float(), shared_out.float(), share)
    return merged.to(queries.dtype).reshape(rows, heads, dim)


def _attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention, and the logarithm of the sum of weights without the last dimension.

    It is what scaled_dot_product_attention calls on a CPU, which keeps the sums to itself.
    """
    out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        queries, keys, values, attn_mask=mask, scale=scale
    )
    return out, sums


def _find(batch: AttentionBatch) -> Cascade | None:
    tables = batch.block_tables.tolist()
    found = shared_beginnings(tables, batch.seq_lens, block_size=batch.block_size)
    if not found:
        return None
    grouped = {row for beginning in found for row in beginning.rows}
    return Cascade(
        tuple(
            _group(batch, list(beginning.rows), tables[beginning.rows[0]][: beginning.num_blocks])
            for beginning in found
        ),
        torch.tensor([row for row in range(len(tables)) if row not in grouped], dtype=torch.int64),
    )


def _group(batch: AttentionBatch, rows: list[int], shared: list[int]) -> Group:
    count, size = len(shared), batch.block_size
    lens = torch.tensor([batch.seq_lens[row] for row in rows]) - count * size
    widest = -(-int(lens.max()) // size)
    own_tables = batch.block_tables[rows, count : count + widest].contiguous()
    is_behind = torch.arange(widest * size) >= lens.unsqueeze(1)
    mask = torch.zeros(is_behind.shape).masked_fill_(is_behind, float("-inf"))
    run = range(shared[0], shared[0] + count)
    return Group(
        torch.tensor(rows),
        torch.tensor(shared),
        run if shared == list(run) else None,
        own_tables,
        mask[:, None, None, :],
    )
