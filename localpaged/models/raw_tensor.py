"""A tensor's bytes as its file has them, not dequantised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class RawTensor:
    """`data` is uint8 [rows, row bytes], rows in the engine's order; `type` is a GGUF type name."""

    type: str
    shape: tuple[int, ...]
    data: torch.Tensor
