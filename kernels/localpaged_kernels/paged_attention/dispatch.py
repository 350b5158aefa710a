"""Checks the arguments of paged attention and picks the implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged_kernels.errors import UnsupportedShape
from localpaged_kernels.kv_cache.reference import check_scales

if TYPE_CHECKING:
    import torch

    from localpaged_kernels.paged_attention.batch import AttentionBatch


TRITON, TORCH, REFERENCE = "triton", "torch", "reference"


def implementation_on(device_type: str, *, has_sinks: bool = False) -> str:
    """Return what attends on a device, by torch's name of its type.

    Sinks are, on the CPU, the slow reference's alone.
    """
    if device_type == "cuda":
        return TRITON
    return REFERENCE if has_sinks else TORCH


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
) -> torch.Tensor:
    """Return each query's attention over its own sequence; see `reference.paged_attention`.

    A GPU gets Triton's kernels; on the CPU sinks are the slow reference's alone.
    Raises UnsupportedShape, with expected and got, when queries, cache and batch do not fit.
    """
    _check(queries, kv, batch)
    check_scales(kv, kv_scales)
    # Deferred: importing the package must import neither torch nor triton.
    implementation = implementation_on(queries.device.type, has_sinks=sinks is not None)
    if implementation == TRITON:
        from localpaged_kernels.paged_attention import triton_impl

        return triton_impl.paged_attention(
            queries,
            kv,
            batch,
            scale=scale,
            window=window,
            kv_scales=kv_scales,
            softcap=softcap,
            sinks=sinks,
        )
    if implementation == REFERENCE:
        from localpaged_kernels.paged_attention import reference

        return reference.paged_attention(
            queries,
            kv,
            batch,
            scale=scale,
            window=window,
            kv_scales=kv_scales,
            softcap=softcap,
            sinks=sinks,
        )
    from localpaged_kernels.paged_attention import torch_cpu

    return torch_cpu.paged_attention(
        queries,
        kv,
        batch,
        scale=scale,
        window=window,
        kv_scales=kv_scales,
        softcap=softcap,
    )


def _check(queries: torch.Tensor, kv: torch.Tensor, batch: AttentionBatch) -> None:
    if queries.dim() != 3 or queries.shape[0] != batch.num_queries:
        raise UnsupportedShape(
            f"queries {tuple(queries.shape)}: expected [{batch.num_queries}, heads, head_dim]"
        )
    if kv.dim() != 5 or kv.shape[1] != batch.block_size or kv.shape[4] != queries.shape[2]:
        raise UnsupportedShape(
            f"kv {tuple(kv.shape)}: expected [blocks, {batch.block_size}, 2, kv_heads, "
            f"{queries.shape[2]}]"
        )
    if queries.shape[1] % kv.shape[3]:
        raise UnsupportedShape(f"{queries.shape[1]} heads do not divide by {kv.shape[3]} KV heads")
    is_usable = queries.dtype.is_floating_point and queries.dtype.itemsize <= 4
    if not is_usable or queries.device != kv.device:
        raise UnsupportedShape(
            f"queries {queries.dtype} on {queries.device}, kv {kv.dtype} on {kv.device}"
        )
