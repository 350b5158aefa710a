"""What the norm means: float32 inside, rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    *,
    eps: float,
    x_weight: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the norm of x + residual, and that sum, both like x [rows, hidden].

    The sum is rounded to the dtype of x before its norm is taken, so that both mean the same
    numbers. `weight` [hidden] multiplies the norm. With an `x_weight` [hidden] what is added is the
    norm of x, multiplied by it and rounded.
    """
    if x_weight is not None:
        x = _normed(x, x_weight, eps)
    total = x if residual is None else (x.float() + residual.float()).to(x.dtype)
    return _normed(total, weight, eps), total


def _normed(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    wide = x.float()
    normed = wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    if weight is not None:
        normed = normed * weight.float()
    return normed.to(x.dtype)
