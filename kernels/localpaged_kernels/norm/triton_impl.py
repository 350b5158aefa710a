"""The norm on a GPU: residual, sum and norm in one launch that reads each number once."""

from __future__ import annotations

import torch

from localpaged_kernels.launch import Launch, power_of_two


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    *,
    eps: float,
    x_weight: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do what `reference.add_rms_norm` does; same arguments, same result."""
    assert residual is not None or x_weight is None, "nothing is added"
    out = x.new_empty(x.shape)
    total = x if residual is None else x.new_empty(x.shape)
    plan(out, total, x, residual, weight, eps=eps, x_weight=x_weight).run()
    return out, total


def plan(
    out: torch.Tensor,
    total: torch.Tensor,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    *,
    eps: float,
    x_weight: torch.Tensor | None = None,
) -> Launch:
    """Return the launch that fills `out` and, where there is a residual, `total`."""
    from localpaged_kernels.norm import triton_kernel

    rows, hidden = x.shape
    width = power_of_two(hidden)
    return Launch(
        triton_kernel.add_rms_norm,
        (rows,),
        {
            "out_ptr": out,
            "total_ptr": total,
            "x_ptr": x,
            "residual_ptr": residual,
            "weight_ptr": weight,
            "x_weight_ptr": x_weight,
            "eps": float(eps),
            "x_stride": x.stride(0),
            "residual_stride": 0 if residual is None else residual.stride(0),
        },
        {
            "HIDDEN": hidden,
            "WIDTH": width,
            "HAS_RESIDUAL": residual is not None,
            "HAS_WEIGHT": weight is not None,
            "HAS_X_WEIGHT": x_weight is not None,
        },
        # 16 numbers a thread: more would be spilled in wide models.
        num_warps=min(max(width // 512, 1), 16),
    )
