"""Launches of every kernel for a card that need not be there; their tensors are shapes alone."""

from __future__ import annotations

from typing import Any

import torch

from localpaged_kernels.card import Card
from localpaged_kernels.few_rows.triton_impl import plan as plan_few_rows
from localpaged_kernels.gated.triton_impl import plan as plan_gated
from localpaged_kernels.kv_cache.triton_impl import plan as plan_blocks
from localpaged_kernels.launch import Launch
from localpaged_kernels.norm.triton_impl import plan as plan_norm
from localpaged_kernels.paged_attention.device_rows import DeviceRows
from localpaged_kernels.paged_attention.triton_cascade import DeviceGroups, plan_cascade, splits_of
from localpaged_kernels.paged_attention.triton_launches import Terms, plan, slots_for
from localpaged_kernels.quantised_linear import triton_impl as quantised
from localpaged_kernels.quantised_linear.reference import GROUP, HALF_GROUP, QuantisedMatrix
from localpaged_kernels.rope_write.triton_impl import plan as plan_write
from localpaged_kernels.sampling.triton_impl import plan as plan_sample

PROCESSORS = {80: 108, 86: 28, 89: 24, 90: 132, 100: 148, 120: 170}
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
INT8, FP8 = torch.int8, torch.float8_e4m3fn


def card(architecture: int) -> Card:
    """Return a common card of an architecture."""
    major, minor = divmod(architecture, 10)
    return Card((major, minor), PROCESSORS[architecture])


def empty(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Return a tensor that is a shape alone."""
    return torch.empty(*shape, dtype=dtype, device="meta")


def attention(
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
    has_sinks: bool = False,
    **numbers: Any,
) -> tuple[Launch, ...]:
    """Return the launches of paged attention."""
    queries = empty(num_queries, heads + 2 * kv_heads, dim, dtype=dtype)[:, :heads]
    kv = empty(4096, 16, 2, kv_heads, dim, dtype=kv_dtype or dtype)
    rows = DeviceRows(
        tables=empty(num_rows, 512),
        lens=empty(num_rows),
        starts=None if num_queries == num_rows else empty(num_rows + 1),
        first_query=0,
        num_queries=num_queries,
        kv_tokens=empty(1) if num_queries == num_rows else None,
    )
    return plan(
        empty(*queries.shape, dtype=dtype),
        queries,
        kv,
        rows,
        Terms(
            dim**-0.5,
            kv_scales=None if kv_dtype is None else empty(*kv.shape[:-1], dtype=FP32),
            sinks=empty(heads, dtype=FP32) if has_sinks else None,
            **numbers,
        ),
        card=card(architecture),
        num_splits=num_splits,
        arrivals=empty(4096) if is_last_merging else None,
    )


def cascade(
    architecture: int,
    *,
    heads: int,
    kv_heads: int,
    dim: int,
    kv_dtype: torch.dtype | None = None,
    num_rows: int = 16,
) -> tuple[Launch, ...]:
    """Return the launches of cascade attention, padded as for a graph."""
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


def write(
    architecture: int,
    *,
    heads: int,
    kv_heads: int,
    dim: int,
    dtype: torch.dtype = BF16,
    kv_dtype: torch.dtype | None = None,
    has_norm: bool = True,
) -> tuple[Launch, ...]:
    """Return the launches of the fused write."""
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


def copy(architecture: int, *, dtype: torch.dtype) -> tuple[Launch, ...]:
    """Return the launches of copies of blocks: gathered, scattered, straight."""
    del architecture
    pool, ids = empty(36, 4096, 16, 2, 8, 128, dtype=dtype), empty(16, dtype=torch.int64)
    piece = empty(36, 16, 16, 2, 8, 128, dtype=dtype)
    return (
        plan_blocks(piece, pool, source_ids=ids),
        plan_blocks(pool, piece, target_ids=ids),
        plan_blocks(pool, pool, source_ids=ids, target_ids=ids),
    )


def norm(
    architecture: int,
    *,
    hidden: int,
    dtype: torch.dtype = BF16,
    has_residual: bool = True,
    adds_norm: bool = False,
) -> tuple[Launch, ...]:
    """Return the launches of the norm; what it adds may be a norm itself."""
    del architecture
    x = empty(8, hidden, dtype=dtype)
    weight = empty(hidden, dtype=dtype)
    residual, x_weight = x if has_residual else None, weight if adds_norm else None
    return (plan_norm(x, x, x, residual, weight, eps=1e-6, x_weight=x_weight),)


def few_rows(
    architecture: int,
    *,
    width: int,
    outputs: int,
    rows: int = 1,
    dtype: torch.dtype = BF16,
    has_norm: bool = False,
    has_bias: bool = False,
    gate: Any = None,
) -> tuple[Launch, ...]:
    """Return the launches of a projection of a row or two, with a norm its residual's, too."""
    del architecture
    x = empty(rows, width, dtype=dtype)
    count = outputs * (1 if gate is None else 2)
    launch = plan_few_rows(
        empty(rows, outputs, dtype=dtype),
        x,
        x,
        empty(count, width, dtype=dtype),
        empty(count, dtype=dtype) if has_bias else None,
        residual=x if has_norm else None,
        norm=empty(width, dtype=dtype) if has_norm else None,
        gate=gate,
    )
    return (launch,)


def gated(architecture: int, *, gate: Any, dtype: torch.dtype = BF16) -> tuple[Launch, ...]:
    """Return the launches of a gated activation."""
    del architecture
    return (plan_gated(empty(8, 12288, dtype=dtype), empty(8, 24576, dtype=dtype), gate),)


def sample(architecture: int, *, vocab: int) -> tuple[Launch, ...]:
    """Return the launches of the draw."""
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


def quantised_matrix(bits: int, outputs: int, width: int) -> QuantisedMatrix:
    """Return a matrix in 8 or 4 bits."""
    groups = -(-width // GROUP)
    if bits == 4:
        numbers = empty(outputs, groups * HALF_GROUP, dtype=torch.uint8)
        return QuantisedMatrix(numbers, empty(groups, outputs, 2, dtype=FP16), width)
    numbers = empty(outputs, groups * GROUP, dtype=INT8)
    return QuantisedMatrix(numbers, empty(groups, outputs, dtype=FP16), width)


def quantised_linear(
    architecture: int,
    *,
    bits: int,
    rows: int,
    outputs: int = 4096,
    width: int = 4096,
    dtype: torch.dtype = BF16,
    has_bias: bool = False,
    num_splits: int | None = None,
) -> tuple[Launch, ...]:
    """Return the launch of a projection of few rows by a matrix in 8 or 4 bits."""
    matrix = quantised_matrix(bits, outputs, width)
    return (
        quantised.plan(
            empty(rows, outputs, dtype=dtype),
            empty(rows, width, dtype=dtype),
            matrix,
            empty(outputs, dtype=dtype) if has_bias else None,
            arrivals=empty(quantised.num_counters(outputs)),
            card=card(architecture),
            num_splits=num_splits,
        ),
    )


def dequantised(
    architecture: int,
    *,
    bits: int,
    width: int = 4096,
    dtype: torch.dtype = BF16,
    has_rows: bool = False,
) -> tuple[Launch, ...]:
    """Return the launch that makes numbers of rows of such a matrix."""
    del architecture  # laid out the same everywhere
    rows = empty(64, dtype=torch.int64) if has_rows else None
    matrix = quantised_matrix(bits, 4096, width)
    return (quantised.plan_dequantise(empty(64, width, dtype=dtype), matrix, rows=rows),)
