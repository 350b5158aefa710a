"""Linear: a projection whose weight format is its own business.

The decoder asks for a linear, not for a matrix product, so quantised weights slot in here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


class Linear:
    """y = x Wᵀ + b with a dense weight [out, in]."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Project x [rows, in] to [rows, out]."""
        return F.linear(x, self._weight, self._bias)
