"""The fused write on a GPU: one launch for norm, rotation, rounding and both stores."""

from __future__ import annotations

import torch

from localpaged_kernels.launch import Launch, power_of_two
from localpaged_kernels.rope_write.reference import check

HEADS_A_PROGRAM = 4
"""Rows of one token that a program has: few, so that one token fills many processors."""


def rope_write(
    qkv: torch.Tensor,
    kv: torch.Tensor,
    slots: torch.Tensor,
    *,
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    scales: torch.Tensor | None = None,
    q_norm: torch.Tensor | None = None,
    k_norm: torch.Tensor | None = None,
    eps: float = 0.0,
    is_chained: bool = False,
) -> torch.Tensor:
    """Do what `reference.rope_write` does; same arguments, same result."""
    check(qkv, kv, scales, q_norm, k_norm)
    heads = qkv.shape[1] - 2 * kv.shape[3]
    out = qkv.new_empty(qkv.shape[0], heads, qkv.shape[2])
    launch = plan(
        out,
        qkv,
        kv,
        slots,
        positions=positions,
        cos=cos,
        sin=sin,
        scales=scales,
        q_norm=q_norm,
        k_norm=k_norm,
        eps=eps,
    )
    (launch.chained() if is_chained else launch).run()
    return out


def plan(
    out: torch.Tensor,
    qkv: torch.Tensor,
    kv: torch.Tensor,
    slots: torch.Tensor,
    *,
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    scales: torch.Tensor | None = None,
    q_norm: torch.Tensor | None = None,
    k_norm: torch.Tensor | None = None,
    eps: float = 0.0,
) -> Launch:
    """Return the launch that fills `out` [tokens, heads, head_dim] and the tokens' slots."""
    from localpaged_kernels.rope_write import triton_kernel

    num_tokens, all_heads, head_dim = qkv.shape
    is_fp8 = kv.dtype == torch.float8_e4m3fn
    strides = (0, 0, 0) if scales is None else scales.stride()
    return Launch(
        triton_kernel.rope_write,
        (num_tokens, -(-all_heads // HEADS_A_PROGRAM)),
        {
            "out_ptr": out,
            "qkv_ptr": qkv,
            "kv_ptr": kv.view(torch.uint8) if is_fp8 else kv,
            "scales_ptr": scales,
            "slots_ptr": slots,
            "positions_ptr": positions,
            "cos_ptr": cos,
            "sin_ptr": sin,
            "q_norm_ptr": q_norm,
            "k_norm_ptr": k_norm,
            "eps": float(eps),
            "qkv_token_stride": qkv.stride(0),
            "qkv_head_stride": qkv.stride(1),
            "angle_stride": cos.stride(0),
            "block_stride": kv.stride(0),
            "token_stride": kv.stride(1),
            "side_stride": kv.stride(2),
            "head_stride": kv.stride(3),
            "scale_block_stride": strides[0],
            "scale_token_stride": strides[1],
            "scale_side_stride": strides[2],
        },
        {
            "HEADS": out.shape[1],
            "KV_HEADS": kv.shape[3],
            "HEAD_DIM": head_dim,
            "DIM": power_of_two(head_dim),
            "BLOCK_SIZE": kv.shape[1],
            "BLOCK_H": HEADS_A_PROGRAM,
            "HAS_NORM": q_norm is not None,
            "HAS_SCALES": scales is not None,
            "IS_FP8": is_fp8,
            "IS_CHAINED": False,
        },
        num_warps=1 if head_dim <= 128 else 2,
    )
