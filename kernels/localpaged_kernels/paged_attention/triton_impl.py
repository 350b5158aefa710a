"""Paged attention on a GPU: one launch for a step's decodes, one for its prompt chunks.

The block table is followed inside of the kernel, nothing is gathered. Decodes that share a long
beginning attend to it together, see `triton_cascade`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from localpaged_kernels.paged_attention.device_rows import DeviceRows, rows_of
from localpaged_kernels.paged_attention.triton_cascade import (
    empty_slots,
    groups_of,
    plan_cascade,
)
from localpaged_kernels.paged_attention.triton_launches import Terms, plan

if TYPE_CHECKING:
    from localpaged_kernels.paged_attention.batch import AttentionBatch


def paged_attention(
    queries: torch.Tensor,
    kv: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    window: int | None = None,
    kv_scales: torch.Tensor | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    is_last_merging: bool = False,
    is_chained: bool = False,
) -> torch.Tensor:
    """Do what `reference.paged_attention` does; same arguments, same result."""
    out = queries.new_empty(queries.shape)
    terms = Terms(scale, window, kv_scales, softcap, sinks)
    groups = groups_of(batch, queries.device, window=window)
    for rows in rows_of(batch, queries.device):
        arrivals = _arrivals(batch, rows, kv) if is_last_merging else None
        if groups is not None and rows.starts is None:
            slots = empty_slots(batch, queries, kv, rows, groups)
            launches = plan_cascade(out, queries, kv, rows, groups, terms, slots, arrivals=arrivals)
        else:
            launches = plan(out, queries, kv, rows, terms, arrivals=arrivals)
        for launch in launches:
            can_be = is_chained and "IS_CHAINED" in launch.constants
            (launch.chained() if can_be else launch).run()
    return out


def _arrivals(batch: AttentionBatch, rows: DeviceRows, kv: torch.Tensor) -> torch.Tensor:
    """Return counters that are zero, and zero again after each launch; one set a step."""
    key = ("arrivals", rows.first_query)
    if key not in batch.shared:
        count = (rows.num_queries + rows.num_rows) * kv.shape[3]
        batch.shared[key] = torch.zeros(count, dtype=torch.int32, device=kv.device)
    made = batch.shared[key]
    assert isinstance(made, torch.Tensor)
    return made
