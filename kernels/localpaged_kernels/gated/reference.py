"""What a gated activation means: float32 inside, rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Gate = Literal["silu", "gelu", "gelu_tanh"]
"""SwiGLU; GeGLU exactly, and with the tanh that Gemma has."""


def gated(gate_up: torch.Tensor, gate: Gate) -> torch.Tensor:
    """Return gate(g) · u [rows, width] of [rows, 2 · width], g in the first half and u behind."""
    import torch.nn.functional as F  # the package is imported where torch is not

    first, second = gate_up.float().chunk(2, dim=-1)
    if gate == "silu":
        opened = F.silu(first)
    else:
        opened = F.gelu(first, approximate="tanh" if gate == "gelu_tanh" else "none")
    return (opened * second).to(gate_up.dtype)
