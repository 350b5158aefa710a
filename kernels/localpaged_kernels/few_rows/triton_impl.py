"""The projection of a few rows on a GPU: one launch, the norm before it and the gate included."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from localpaged_kernels.gated.reference import Gate
from localpaged_kernels.launch import Launch

MOST_ROWS = 2
"""With four rows what a program holds of them would leave two programs on a processor."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a projection is laid out: `outputs` are rows of the matrix that a program reads.

    Those of both halves where there is a gate. It reads `stretch` inputs of them at a time, and
    `stages` stretches are on their way or there.
    """

    outputs: int
    stretch: int
    stages: int


ON_CARDS = Layout(outputs=8, stretch=512, stages=4)
"""Two of a program's four warps read a row, 16 bytes a thread."""

INTERPRETED = Layout(outputs=256, stretch=512, stages=1)
"""The interpreter's cost is by the program."""


def project(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    residual: torch.Tensor | None = None,
    norm: torch.Tensor | None = None,
    eps: float = 0.0,
    gate: Gate | None = None,
    is_chained: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do what `reference.project` does for `MOST_ROWS` or fewer; same arguments, same result."""
    outputs = weight.shape[0] // (1 if gate is None else 2)
    out = x.new_empty(x.shape[0], outputs)
    total = x if residual is None else x.new_empty(x.shape)
    launch = plan(out, total, x, weight, bias, residual=residual, norm=norm, eps=eps, gate=gate)
    (launch.chained() if is_chained else launch).run()
    return out, total


def plan(
    out: torch.Tensor,
    total: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    residual: torch.Tensor | None = None,
    norm: torch.Tensor | None = None,
    eps: float = 0.0,
    gate: Gate | None = None,
    layout: Layout | None = None,
) -> Launch:
    """Return the launch that fills `out` [rows, outputs] and, with a residual, `total`."""
    from localpaged_kernels.few_rows import triton_kernel

    rows, width = x.shape
    outputs = out.shape[1]
    assert 1 <= rows <= MOST_ROWS, "rows are held in registers"
    layout = layout or (INTERPRETED if x.device.type == "cpu" else ON_CARDS)
    block = layout.outputs if gate is None else layout.outputs // 2
    return Launch(
        triton_kernel.project,
        (-(-outputs // block),),
        {
            "out_ptr": out,
            "total_ptr": total,
            "x_ptr": x,
            "residual_ptr": residual,
            "norm_ptr": norm,
            "weight_ptr": weight,
            "bias_ptr": bias,
            "eps": float(eps),
            "outputs": outputs,
            "x_stride": x.stride(0),
            "residual_stride": 0 if residual is None else residual.stride(0),
            "weight_stride": weight.stride(0),
        },
        {
            "WIDTH": width,
            "NUM_ROWS": rows,
            "BLOCK_N": block,
            "BLOCK_K": layout.stretch,
            "STAGES": layout.stages,
            "HAS_RESIDUAL": residual is not None,
            "HAS_NORM": norm is not None,
            "HAS_BIAS": bias is not None,
            "GATE": gate,
            "IS_CHAINED": False,
        },
        is_unspilled=True,
    )
