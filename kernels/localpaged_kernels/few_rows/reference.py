"""What the projection means: the norm, the product and the gate, each as its own operator means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged_kernels.gated.reference import Gate, gated
from localpaged_kernels.norm.reference import add_rms_norm

if TYPE_CHECKING:
    import torch


def project(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    residual: torch.Tensor | None = None,
    norm: torch.Tensor | None = None,
    eps: float = 0.0,
    gate: Gate | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the projection [rows, outputs] of x [rows, width], and what was normalised like x.

    With `norm` [width] that is the norm of x + `residual`, else x itself is projected by `weight`
    [outputs, width] and `bias` [outputs]. With a `gate` the first half of the weight's rows opens
    the second half's, and there are half as many outputs.
    """
    total = x
    if norm is not None:
        x, total = add_rms_norm(x, residual, norm, eps=eps)
    out = x.float() @ weight.float().T
    if bias is not None:
        out = out + bias.float()
    out = out.to(x.dtype)
    return (out if gate is None else gated(out, gate)), total
