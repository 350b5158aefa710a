"""What Triton's kernels are tried on: the CPU, interpreted; with TRITON_INTERPRET=0 a GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from localpaged_kernels import AttentionBatch
from localpaged_kernels.card import Card
from localpaged_kernels.kv_cache.reference import quantise
from localpaged_kernels.paged_attention.device_rows import rows_of
from localpaged_kernels.paged_attention.triton_launches import Terms, plan
from testkit.attention_inputs import LOUD, build

DEVICE = torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}

LARGE_CARD = Card((8, 0), 100)
"""Cuts sequences into as many parts as they are long enough for."""


def build_poisoned(
    rows: Sequence[tuple[int, int]],
    *,
    dtype: torch.dtype = torch.bfloat16,
    kv_dtype: torch.dtype | None = None,
    **shape: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, AttentionBatch]:
    """Build queries, cache, scales and batch; what nobody wrote is not a number."""
    queries, kv, batch = build(rows, dtype=torch.float32, **shape)
    is_unwritten = kv[..., 0] == LOUD
    is_unwritten[0] = True
    scales = None
    if kv_dtype is None:
        kv = kv.to(dtype)
        kv[is_unwritten] = float("nan")
    else:
        kv, scales = quantise(kv, kv_dtype)
        scales[is_unwritten] = float("nan")
    return queries.to(dtype), kv, scales, batch


def attend(
    queries: torch.Tensor,
    kv: torch.Tensor,
    batch: AttentionBatch,
    *,
    num_splits: int | None = None,
    is_last_merging: bool = False,
    **numbers: Any,
) -> torch.Tensor:
    """Attend by Triton into memory that is not a number, and check that the counters are reset."""
    tensors = {
        name: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
        for name, value in numbers.items()
    }
    out = torch.full(queries.shape, float("nan"), dtype=queries.dtype, device=DEVICE)
    for rows in rows_of(batch, DEVICE):
        count = (rows.num_queries + rows.num_rows) * kv.shape[3]
        arrivals = torch.zeros(count, dtype=torch.int32, device=DEVICE)
        for launch in plan(
            out,
            queries.to(DEVICE),
            kv.to(DEVICE),
            rows,
            Terms(**tensors),
            arrivals=arrivals if is_last_merging else None,
            card=LARGE_CARD,
            num_splits=num_splits,
        ):
            launch.run()
        assert not arrivals.any()
    return out.cpu()


def endless(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return zeros of any size; on the CPU only what is written takes memory."""
    if DEVICE.type == "cuda":
        return torch.zeros(shape, dtype=dtype, device=DEVICE)
    count = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(count, dtype=np.uint8)).view(dtype).view(shape)
