"""Gated activations on a GPU: one launch."""

from __future__ import annotations

import torch

from localpaged_kernels.gated.reference import Gate
from localpaged_kernels.launch import Launch

STRETCH = 1024
"""Numbers of a row that one program makes."""


def gated(gate_up: torch.Tensor, gate: Gate) -> torch.Tensor:
    """Do what `reference.gated` does; same arguments, same result."""
    out = gate_up.new_empty(gate_up.shape[0], gate_up.shape[1] // 2)
    plan(out, gate_up, gate).run()
    return out


def plan(out: torch.Tensor, gate_up: torch.Tensor, gate: Gate) -> Launch:
    """Return the launch that fills `out` [rows, width]."""
    from localpaged_kernels.gated import triton_kernel

    rows, width = out.shape
    return Launch(
        triton_kernel.gated,
        (rows, -(-width // STRETCH)),
        {
            "out_ptr": out,
            "gate_up_ptr": gate_up,
            "width": width,
            "row_stride": gate_up.stride(0),
        },
        {"GATE": gate, "STRETCH": STRETCH},
    )
