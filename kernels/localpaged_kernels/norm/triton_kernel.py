"""Triton kernel of the norm: a program has one row, and reads it once."""

import triton
import triton.language as tl


@triton.jit
def add_rms_norm(
    out_ptr, total_ptr, x_ptr, residual_ptr, weight_ptr, x_weight_ptr, eps, x_stride,
    residual_stride,
    HIDDEN: tl.constexpr, WIDTH: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, HAS_X_WEIGHT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, WIDTH)
    mask = places < HIDDEN
    raw = tl.load(x_ptr + row * x_stride + places, mask=mask, other=0.0)
    if HAS_X_WEIGHT:
        x = raw.to(tl.float32)
        x_weight = tl.load(x_weight_ptr + places, mask=mask, other=0.0).to(tl.float32)
        raw = (x * tl.rsqrt(tl.sum(x * x, 0) / HIDDEN + eps) * x_weight).to(raw.dtype)
    if HAS_RESIDUAL:
        residual = tl.load(residual_ptr + row * residual_stride + places, mask=mask, other=0.0)
        raw = (raw.to(tl.float32) + residual.to(tl.float32)).to(raw.dtype)
        tl.store(total_ptr + row * HIDDEN + places, raw, mask=mask)
    wide = raw.to(tl.float32)
    normed = wide * tl.rsqrt(tl.sum(wide * wide, 0) / HIDDEN + eps)
    if HAS_WEIGHT:
        normed *= tl.load(weight_ptr + places, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * HIDDEN + places, normed.to(raw.dtype), mask=mask)
