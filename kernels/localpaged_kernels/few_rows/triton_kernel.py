"""Triton kernel that projects a few rows: a program has some outputs, and reads their weights once.

Rows are so few that a weight is multiplied with all of them where it arrives, in the thread that
read it: nothing is exchanged before the end. The norm's divisor is the same for a whole row, so it
is taken off at the end, and rows are read once.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from localpaged_kernels.gated.triton_kernel import open_gate


@triton.jit
def _inputs(
    total_ptr, x_ptr, residual_ptr, row, x_stride, residual_stride, columns, norm, squares,
    is_read, written,
    WIDTH: tl.constexpr, HAS_RESIDUAL: tl.constexpr, HAS_NORM: tl.constexpr,
):  # fmt: skip
    # All programs of a processor read the rows: they stay in its own cache.
    raw = tl.load(x_ptr + row * x_stride + columns, mask=is_read, other=0.0, cache_modifier=".ca")
    if HAS_RESIDUAL:
        residual = tl.load(
            residual_ptr + row * residual_stride + columns, mask=is_read, other=0.0,
            cache_modifier=".ca",
        )  # fmt: skip
        raw = (raw.to(tl.float32) + residual.to(tl.float32)).to(raw.dtype)
        tl.store(total_ptr + row * WIDTH + columns, raw, mask=is_read & (columns < written))
    wide = raw.to(tl.float32)
    if HAS_NORM:
        squares += wide * wide
        wide *= norm
    return wide[None, :], squares


@triton.jit
def _end(
    out_ptr, bias_ptr, row, outs, outputs, acc, upper, squares, eps, is_stored,
    WIDTH: tl.constexpr, HAS_NORM: tl.constexpr, HAS_BIAS: tl.constexpr, GATE: tl.constexpr,
):  # fmt: skip
    # Rounded between as operators of their own would leave it.
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    sums = tl.sum(acc, 1)
    if HAS_NORM:
        inverse = tl.rsqrt(tl.sum(squares, 0) / WIDTH + eps)
        sums *= inverse
    if HAS_BIAS:
        sums += tl.load(bias_ptr + outs, mask=is_stored, other=0.0).to(tl.float32)
    out = sums.to(dtype)
    if GATE is not None:
        sums = tl.sum(upper, 1)
        if HAS_NORM:
            sums *= inverse
        if HAS_BIAS:
            sums += tl.load(bias_ptr + outputs + outs, mask=is_stored, other=0.0).to(tl.float32)
        out = open_gate(out.to(tl.float32), GATE) * sums.to(dtype).to(tl.float32)
    tl.store(out_ptr + row * outputs + outs, out.to(dtype), mask=is_stored)


@triton.jit
def project(
    out_ptr, total_ptr, x_ptr, residual_ptr, norm_ptr, weight_ptr, bias_ptr,
    eps, outputs, x_stride, residual_stride, weight_stride,
    WIDTH: tl.constexpr, NUM_ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr, HAS_RESIDUAL: tl.constexpr, HAS_NORM: tl.constexpr,
    HAS_BIAS: tl.constexpr, GATE: tl.constexpr, IS_CHAINED: tl.constexpr,
):  # fmt: skip
    if IS_CHAINED:
        # The next launch may take its places; what this one reads must be there.
        gdc_launch_dependents()
        gdc_wait()
    block = tl.program_id(0)
    outs = block * BLOCK_N + tl.arange(0, BLOCK_N)
    is_out = outs < outputs
    # What was normalised is written by one program.
    written = tl.where(block == 0, WIDTH, 0)
    places = tl.arange(0, BLOCK_K)
    weights = weight_ptr + outs.to(tl.int64)[:, None] * weight_stride + places[None, :]
    uppers = weights + outputs.to(tl.int64) * weight_stride
    acc0 = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    acc1, up0, up1 = acc0, acc0, acc0
    sq0 = tl.zeros([BLOCK_K], tl.float32)
    sq1 = sq0
    for first in tl.range(0, WIDTH, BLOCK_K, num_stages=STAGES):
        columns = first + places
        is_column = columns < WIDTH
        w = tl.load(
            weights + first, mask=is_out[:, None] & is_column[None, :], other=0.0,
            eviction_policy="evict_first",
        ).to(tl.float32)  # fmt: skip
        u = w
        if GATE is not None:
            u = tl.load(
                uppers + first, mask=is_out[:, None] & is_column[None, :], other=0.0,
                eviction_policy="evict_first",
            ).to(tl.float32)  # fmt: skip
        norm = sq0
        if HAS_NORM:
            norm = tl.load(norm_ptr + columns, mask=is_column, other=0.0, cache_modifier=".ca").to(
                tl.float32
            )
        x, sq0 = _inputs(
            total_ptr, x_ptr, residual_ptr, 0, x_stride, residual_stride, columns, norm, sq0,
            is_column, written, WIDTH, HAS_RESIDUAL, HAS_NORM,
        )  # fmt: skip
        acc0 += w * x
        if GATE is not None:
            up0 += u * x
        if NUM_ROWS > 1:
            x, sq1 = _inputs(
                total_ptr, x_ptr, residual_ptr, 1, x_stride, residual_stride, columns, norm, sq1,
                is_column, written, WIDTH, HAS_RESIDUAL, HAS_NORM,
            )  # fmt: skip
            acc1 += w * x
            if GATE is not None:
                up1 += u * x

    _end(
        out_ptr, bias_ptr, 0, outs, outputs, acc0, up0, sq0, eps, is_out,
        WIDTH, HAS_NORM, HAS_BIAS, GATE,
    )  # fmt: skip
    if NUM_ROWS > 1:
        _end(
            out_ptr, bias_ptr, 1, outs, outputs, acc1, up1, sq1, eps, is_out,
            WIDTH, HAS_NORM, HAS_BIAS, GATE,
        )  # fmt: skip
