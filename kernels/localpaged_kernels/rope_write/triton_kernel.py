"""Triton kernel of the fused write: a program has one token and some of its heads."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

ROUNDER: tl.constexpr = tl.constexpr(12582912.0)
"""1.5 · 2^23: added and taken off again it leaves the nearest whole number, even ones first."""


@triton.jit
def _fp8_bits(x):
    # Where the processor cannot, and where it can the same: nearest e4m3, even ones first.
    wide = x.to(tl.int32, bitcast=True)
    sign = (wide >> 24) & 0x80
    magnitude = wide & 0x7FFFFFFF
    rounded = magnitude + 0x7FFFF + ((magnitude >> 20) & 1)
    normal = (rounded >> 20) - (120 << 3)
    small = ((tl.abs(x) * 512.0 + ROUNDER) - ROUNDER).to(tl.int32)
    return (tl.where(tl.abs(x) < 0.015625, small, normal) | sign).to(tl.uint8)


@triton.jit
def rope_write(
    out_ptr, qkv_ptr, kv_ptr, scales_ptr, slots_ptr, positions_ptr, cos_ptr, sin_ptr,
    q_norm_ptr, k_norm_ptr, eps, qkv_token_stride, qkv_head_stride, angle_stride,
    block_stride, token_stride, side_stride, head_stride,
    scale_block_stride, scale_token_stride, scale_side_stride,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, BLOCK_H: tl.constexpr, HAS_NORM: tl.constexpr,
    HAS_SCALES: tl.constexpr, IS_FP8: tl.constexpr, IS_CHAINED: tl.constexpr,
):  # fmt: skip
    if IS_CHAINED:
        # The next launch may take its places; what this one reads must be there.
        gdc_launch_dependents()
        gdc_wait()
    token = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    dims = tl.arange(0, DIM)
    half: tl.constexpr = HEAD_DIM // 2
    partners = tl.where(dims < half, dims + half, dims - half)
    is_dim = dims < HEAD_DIM
    is_head = heads < HEADS + 2 * KV_HEADS
    is_query = heads < HEADS
    is_value = heads >= HEADS + KV_HEADS
    mask = is_head[:, None] & is_dim[None, :]

    row = qkv_ptr + token * qkv_token_stride + heads[:, None] * qkv_head_stride
    raw = tl.load(row + dims[None, :], mask=mask, other=0.0)
    x = raw.to(tl.float32)
    swapped = tl.load(row + partners[None, :], mask=mask, other=0.0).to(tl.float32)
    if HAS_NORM:
        inverse = tl.rsqrt(tl.sum(x * x, 1) / HEAD_DIM + eps)[:, None]
        q_weight = tl.load(q_norm_ptr + dims, mask=is_dim, other=0.0).to(tl.float32)
        k_weight = tl.load(k_norm_ptr + dims, mask=is_dim, other=0.0).to(tl.float32)
        q_partner = tl.load(q_norm_ptr + partners, mask=is_dim, other=0.0).to(tl.float32)
        k_partner = tl.load(k_norm_ptr + partners, mask=is_dim, other=0.0).to(tl.float32)
        x = x * inverse * tl.where(is_query[:, None], q_weight[None, :], k_weight[None, :])
        swapped *= inverse * tl.where(is_query[:, None], q_partner[None, :], k_partner[None, :])
    angle = tl.load(positions_ptr + token).to(tl.int64) * angle_stride + dims
    cos = tl.load(cos_ptr + angle, mask=is_dim, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + angle, mask=is_dim, other=0.0).to(tl.float32)
    turned = (x * cos[None, :] + swapped * sin[None, :]).to(raw.dtype)
    made = tl.where(is_value[:, None], raw, turned)
    tl.store(
        out_ptr + (token * HEADS + heads)[:, None] * HEAD_DIM + dims[None, :], made,
        mask=mask & is_query[:, None],
    )  # fmt: skip

    is_kept = is_head & (heads >= HEADS)
    kv_head = heads - HEADS - tl.where(is_value, KV_HEADS, 0)
    side = is_value.to(tl.int64)
    slot = tl.load(slots_ptr + token).to(tl.int64)
    block = slot // BLOCK_SIZE
    inside = slot % BLOCK_SIZE
    place = (
        block * block_stride + inside * token_stride + side * side_stride + kv_head * head_stride
    )
    target = kv_ptr + place[:, None] + dims[None, :]
    is_stored = is_kept[:, None] & is_dim[None, :]
    if HAS_SCALES:
        limit: tl.constexpr = 448.0 if IS_FP8 else 127.0
        wide = made.to(tl.float32)
        # What is not finite is not hidden by the maximum.
        is_sound = (tl.abs(wide) < float("inf")) | (~mask)
        most = tl.max(tl.where(is_sound, tl.abs(wide), 0.0), 1)
        is_broken = tl.min(is_sound.to(tl.int32), 1) == 0
        scale = tl.where(is_broken, float("nan"), most / limit)
        step = tl.where(is_sound, wide, 0.0) / tl.maximum(most / limit, 1e-30)[:, None]
        step = tl.minimum(tl.maximum(step, -limit), limit)
        if IS_FP8:
            numbers = _fp8_bits(step)
        else:
            numbers = ((step + ROUNDER) - ROUNDER).to(tl.int8)
        tl.store(target, numbers, mask=is_stored)
        scale_place = (
            block * scale_block_stride + inside * scale_token_stride + side * scale_side_stride
        )
        tl.store(scales_ptr + scale_place + kv_head, scale, mask=is_kept)
    else:
        tl.store(target, made.to(kv_ptr.dtype.element_ty), mask=is_stored)
