"""Launches of shapes that models have, for which every kernel is compiled ahead of time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from localpaged_kernels.card import Card
from localpaged_kernels.gated.triton_impl import plan as plan_gated
from localpaged_kernels.kv_cache.triton_impl import plan as plan_blocks
from localpaged_kernels.launch import Launch
from localpaged_kernels.norm.triton_impl import plan as plan_norm
from localpaged_kernels.paged_attention.device_rows import DeviceRows
from localpaged_kernels.paged_attention.triton_cascade import DeviceGroups, plan_cascade, splits_of
from localpaged_kernels.paged_attention.triton_launches import Terms, plan, slots_for
from localpaged_kernels.rope_write.triton_impl import plan as plan_write
from localpaged_kernels.sampling.triton_impl import plan as plan_sample

PROCESSORS = {80: 108, 86: 28, 89: 24, 90: 132, 100: 148, 120: 170}
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
INT8, FP8 = torch.int8, torch.float8_e4m3fn

Case = Callable[[int], tuple[Launch, ...]]
"""Makes the launches for an architecture; their tensors have shapes and no memory."""


def card(architecture: int) -> Card:
    """Return a common card of an architecture."""
    major, minor = divmod(architecture, 10)
    return Card((major, minor), PROCESSORS[architecture])


def empty(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Return a tensor that is a shape alone."""
    return torch.empty(*shape, dtype=dtype, device="meta")


def _attention(
    architecture: int,
    *,
    heads: int,
    kv_heads: int,
    dim: int,
    dtype: torch.dtype = BF16,
    kv_dtype: torch.dtype | None = None,
    num_queries: int = 8,
    num_rows: int = 8,
    num_splits: int = 1,
    is_last_merging: bool = False,
    **numbers: Any,
) -> tuple[Launch, ...]:
    queries = empty(num_queries, heads + 2 * kv_heads, dim, dtype=dtype)[:, :heads]
    kv = empty(4096, 16, 2, kv_heads, dim, dtype=kv_dtype or dtype)
    rows = DeviceRows(
        tables=empty(num_rows, 512),
        lens=empty(num_rows),
        starts=None if num_queries == num_rows else empty(num_rows + 1),
        first_query=0,
        num_queries=num_queries,
    )
    if "softcap" in numbers:
        numbers["sinks"] = empty(heads, dtype=FP32)
    return plan(
        empty(*queries.shape, dtype=dtype),
        queries,
        kv,
        rows,
        Terms(
            dim**-0.5,
            kv_scales=None if kv_dtype is None else empty(*kv.shape[:-1], dtype=FP32),
            **numbers,
        ),
        card=card(architecture),
        num_splits=num_splits,
        arrivals=empty(4096) if is_last_merging else None,
    )


def _cascade(
    architecture: int,
    *,
    heads: int,
    kv_heads: int,
    dim: int,
    kv_dtype: torch.dtype | None = None,
    num_rows: int = 16,
) -> tuple[Launch, ...]:
    queries = empty(num_rows, heads + 2 * kv_heads, dim, dtype=BF16)[:, :heads]
    kv = empty(4096, 16, 2, kv_heads, dim, dtype=kv_dtype or BF16)
    rows = DeviceRows(empty(num_rows, 512), empty(num_rows), None, 0, num_rows)
    groups = DeviceGroups(empty(num_rows), empty(3), empty(2), empty(num_rows))
    scales = None if kv_dtype is None else empty(*kv.shape[:-1], dtype=FP32)
    slots = slots_for(queries, sum(splits_of(queries, kv, rows, groups, card(architecture))))
    return plan_cascade(
        empty(*queries.shape, dtype=BF16),
        queries,
        kv,
        rows,
        groups,
        Terms(dim**-0.5, kv_scales=scales),
        slots,
        card=card(architecture),
    )


def _write(
    architecture: int,
    *,
    heads: int,
    kv_heads: int,
    dim: int,
    dtype: torch.dtype = BF16,
    kv_dtype: torch.dtype | None = None,
    has_norm: bool = True,
) -> tuple[Launch, ...]:
    del architecture  # compiled for all alike
    kv = empty(4096, 16, 2, kv_heads, dim, dtype=kv_dtype or dtype)
    launch = plan_write(
        empty(8, heads, dim, dtype=dtype),
        empty(8, heads + 2 * kv_heads, dim, dtype=dtype),
        kv,
        empty(8, dtype=torch.int64),
        positions=empty(8, dtype=torch.int64),
        cos=empty(4096, dim, dtype=FP32),
        sin=empty(4096, dim, dtype=FP32),
        scales=None if kv_dtype is None else empty(*kv.shape[:-1], dtype=FP32),
        q_norm=empty(dim, dtype=dtype) if has_norm else None,
        k_norm=empty(dim, dtype=dtype) if has_norm else None,
        eps=1e-6,
    )
    return (launch,)


def _copy(architecture: int, *, dtype: torch.dtype) -> tuple[Launch, ...]:
    del architecture
    pool, ids = empty(36, 4096, 16, 2, 8, 128, dtype=dtype), empty(16, dtype=torch.int64)
    piece = empty(36, 16, 16, 2, 8, 128, dtype=dtype)
    return (
        plan_blocks(piece, pool, source_ids=ids),
        plan_blocks(pool, piece, target_ids=ids),
        plan_blocks(pool, pool, source_ids=ids, target_ids=ids),
    )


def _norm(
    architecture: int, *, hidden: int, dtype: torch.dtype = BF16, has_residual: bool = True
) -> tuple[Launch, ...]:
    del architecture
    x = empty(8, hidden, dtype=dtype)
    weight = empty(hidden, dtype=dtype)
    return (plan_norm(x, x, x, x if has_residual else None, weight, eps=1e-6),)


def _gated(architecture: int, *, gate: Any, dtype: torch.dtype = BF16) -> tuple[Launch, ...]:
    del architecture
    return (plan_gated(empty(8, 12288, dtype=dtype), empty(8, 24576, dtype=dtype), gate),)


def _sample(architecture: int, *, vocab: int) -> tuple[Launch, ...]:
    del architecture
    row = empty(8, dtype=FP32)
    launch = plan_sample(
        empty(8, dtype=torch.int64),
        empty(8, dtype=torch.int8),
        empty(8, vocab, dtype=FP32),
        temperatures=row,
        top_k=empty(8),
        top_p=row,
        min_p=row,
        numbers=row,
    )
    return (launch,)


_decode = partial(partial, _attention)
_chunk = partial(partial, _attention, num_queries=512)
_ALL = {"window": 4096, "softcap": 50.0}

CASES: dict[str, Case] = {
    "decode, bf16, 32/8 heads of 128": _decode(heads=32, kv_heads=8, dim=128),
    "decode, bf16, 32/8 of 128, 16 parts": _decode(heads=32, kv_heads=8, dim=128, num_splits=16),
    "decode, bf16, 32/8 of 128, 16 parts, last merges": _decode(
        heads=32, kv_heads=8, dim=128, num_splits=16, is_last_merging=True
    ),
    "decode, bf16, 16/8 of 64, window, cap, sinks": _decode(
        heads=16, kv_heads=8, dim=64, num_splits=4, **_ALL
    ),
    "decode, bf16, 9/3 of 64": _decode(heads=9, kv_heads=3, dim=64),
    "decode, bf16, 32/32 of 80": _decode(heads=32, kv_heads=32, dim=80, num_splits=2),
    "decode, bf16, 32/32 of 96": _decode(heads=32, kv_heads=32, dim=96),
    "decode, fp16, 28/4 of 112": _decode(heads=28, kv_heads=4, dim=112, dtype=FP16),
    "decode, bf16, 8/4 of 256": _decode(heads=8, kv_heads=4, dim=256),
    "decode, bf16, 64/2 of 128, 8 parts": _decode(heads=64, kv_heads=2, dim=128, num_splits=8),
    "decode, bf16 on int8, 32/8 of 128": _decode(
        heads=32, kv_heads=8, dim=128, kv_dtype=INT8, num_splits=8
    ),
    "decode, fp16 on int8, 32/8 of 128": _decode(
        heads=32, kv_heads=8, dim=128, dtype=FP16, kv_dtype=INT8
    ),
    "decode, bf16 on fp8, 32/8 of 128": _decode(
        heads=32, kv_heads=8, dim=128, kv_dtype=FP8, num_splits=8
    ),
    "decode, bf16 on fp8, 14/2 of 64, 8 parts": _decode(
        heads=14, kv_heads=2, dim=64, kv_dtype=FP8, num_splits=8
    ),
    "decode, bf16 on fp8, 8/4 of 256": _decode(heads=8, kv_heads=4, dim=256, kv_dtype=FP8),
    "decode, fp32, 32/8 of 128": _decode(heads=32, kv_heads=8, dim=128, dtype=FP32, num_splits=4),
    "decode, fp32, 8/4 of 256": _decode(heads=8, kv_heads=4, dim=256, dtype=FP32, **_ALL),
    "chunk, bf16, 32/8 of 128": _chunk(heads=32, kv_heads=8, dim=128),
    "chunk, bf16, 32/8 of 128, window, cap, sinks": _chunk(
        heads=32, kv_heads=8, dim=128, num_splits=4, **_ALL
    ),
    "chunk, bf16, 9/3 of 64": _chunk(heads=9, kv_heads=3, dim=64),
    "chunk, fp16, 32/32 of 80": _chunk(heads=32, kv_heads=32, dim=80, dtype=FP16),
    "chunk, bf16, 28/4 of 112": _chunk(heads=28, kv_heads=4, dim=112),
    "chunk, bf16, 28/4 of 112, 2 parts": _chunk(heads=28, kv_heads=4, dim=112, num_splits=2),
    "chunk, bf16, 8/4 of 256": _chunk(heads=8, kv_heads=4, dim=256),
    "chunk, bf16 on int8, 32/8 of 128": _chunk(
        heads=32, kv_heads=8, dim=128, kv_dtype=INT8, num_splits=4, **_ALL
    ),
    "chunk, bf16 on fp8, 32/8 of 128": _chunk(heads=32, kv_heads=8, dim=128, kv_dtype=FP8),
    "chunk, fp16 on fp8, 8/4 of 256": _chunk(
        heads=8, kv_heads=4, dim=256, dtype=FP16, kv_dtype=FP8, **_ALL
    ),
    "chunk, fp32, 32/8 of 128": _chunk(heads=32, kv_heads=8, dim=128, dtype=FP32),
    "chunk, fp32, 8/4 of 256": _chunk(heads=8, kv_heads=4, dim=256, dtype=FP32, **_ALL),
    "cascade, bf16, 32/8 of 128": partial(_cascade, heads=32, kv_heads=8, dim=128),
    "cascade, bf16 on int8, 16/8 of 64": partial(
        _cascade, heads=16, kv_heads=8, dim=64, kv_dtype=INT8
    ),
    "write, bf16, 32/8 of 128, norms": partial(_write, heads=32, kv_heads=8, dim=128),
    "write, fp16, 9/3 of 64": partial(
        _write, heads=9, kv_heads=3, dim=64, dtype=FP16, has_norm=False
    ),
    "write, fp32, 32/32 of 80": partial(
        _write, heads=32, kv_heads=32, dim=80, dtype=FP32, has_norm=False
    ),
    "write, bf16 into int8, 32/8 of 128, norms": partial(
        _write, heads=32, kv_heads=8, dim=128, kv_dtype=INT8
    ),
    "write, bf16 into fp8, 8/4 of 256, norms": partial(
        _write, heads=8, kv_heads=4, dim=256, kv_dtype=FP8
    ),
    "copy of blocks, bf16": partial(_copy, dtype=BF16),
    "norm of 4,096, bf16, residual": partial(_norm, hidden=4096),
    "norm of 576, fp16, residual": partial(_norm, hidden=576, dtype=FP16),
    "norm of 8,192, fp32": partial(_norm, hidden=8192, dtype=FP32, has_residual=False),
    "SwiGLU, bf16": partial(_gated, gate="silu"),
    "GeGLU, fp16": partial(_gated, gate="gelu", dtype=FP16),
    "GeGLU with tanh, bf16": partial(_gated, gate="gelu_tanh"),
    "draw from 151,936": partial(_sample, vocab=151936),
    "draw from 49,152": partial(_sample, vocab=49152),
}
