"""Attention of a processor's step alone, by one thread."""

from __future__ import annotations

import numba
import numpy as np
import torch

from localpaged.engine.team_decoder import KV_KINDS
from localpaged_kernels import AttentionBatch
from localpaged_kernels.cpu_step.attention import attend, merge_parts, scratch_bytes
from localpaged_kernels.cpu_step.huge_pages import Room, room_for
from localpaged_kernels.cpu_step.step import JOB
from localpaged_kernels.cpu_step.units import plan_units


@numba.njit
def _attend(jobs, kv, scales):
    job = jobs[0]
    for unit in range(job.num_units):
        attend(job, unit, kv, scales, job.scratch)


@numba.njit
def _merge(jobs, token):
    for head in range(jobs[0].heads):
        merge_parts(jobs[0], token, head, jobs[0].scratch)


def attend_by_team(
    queries: torch.Tensor,
    kv: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    window: int | None = None,
    kv_scales: torch.Tensor | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Do what `reference.paged_attention` does; same arguments, float32 queries."""
    tokens, heads, dim = queries.shape
    kv_heads = kv.shape[3]
    group = heads // kv_heads
    lens = np.array([len(table) for table in batch.tables])
    query_lens, seq_lens = (np.array(n, np.int64) for n in (batch.query_lens, batch.seq_lens))
    tables = torch.cat(batch.tables).numpy()
    planned = plan_units(query_lens, seq_lens, tables, lens.cumsum() - lens, group, window or 0, 1)
    units, members, first_parts, num_parts, parts = planned
    ends = zip(batch.query_lens, batch.seq_lens, strict=True)
    positions = np.concatenate([np.arange(seen - asked, seen) for asked, seen in ends])
    # Behind the queries are K and V of the same tokens, which nobody reads here.
    qkv = np.full((tokens, (heads + 2 * kv_heads) * dim), np.nan, np.float32)
    qkv[:, : heads * dim] = (queries * scale).reshape(tokens, -1).numpy()
    out = np.full((tokens, heads, dim), np.nan, np.float32)
    scratch = Room(room_for(scratch_bytes(group, kv_heads, dim), np.uint8))
    own = scratch.take(scratch_bytes(group, kv_heads, dim), np.uint8)
    own[:] = 0xFF  # not a number, wherever somebody reads before it writes
    part_sums = np.full((max(parts, 1), heads, dim), np.nan, np.float32)
    states = np.full((max(parts, 1), heads, 2), np.nan, np.float32)
    jobs = np.zeros(1, JOB)
    arrays = {
        "units": units, "members": members, "first_parts": first_parts, "num_parts": num_parts,
        "tables": tables, "positions": positions, "qkv": qkv, "attended": out, "parts": part_sums,
        "part_states": states, "scratch": own,
    }  # fmt: skip
    for name, array in arrays.items():
        jobs[0][name] = array.ctypes.data
    numbers = {
        "num_units": len(units), "heads": heads, "kv_heads": kv_heads, "head_dim": dim,
        "window": window or 0, "kv_kind": KV_KINDS[kv.dtype], "kv_item_bytes": kv.itemsize,
        "qkv_outputs": qkv.shape[1],
    }  # fmt: skip
    for name, number in numbers.items():
        jobs[0][name] = number
    jobs[0]["score_cap"] = softcap or 0
    _attend(jobs, kv.data_ptr(), 0 if kv_scales is None else kv_scales.data_ptr())
    for token in range(tokens):
        if num_parts[token]:
            _merge(jobs, token)
    return torch.from_numpy(out)
