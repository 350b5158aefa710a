"""What a matrix in 8 or 4 bits means, in plain torch: numbers, groups of 32, scales.

A matrix [outputs, width] has groups of 32 numbers along its rows; the last one may be shorter and
is filled up. In 8 bits w = number · scale, in 4 bits w = number · scale + minimum: GGUF's Q8_0 and
Q4_1. A group is words of 16 bits, low byte first: in 8 bits word j has the numbers j and j + 16, in
4 bits j, j + 8, j + 16 and j + 24, the first one lowest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localpaged_kernels.errors import UnsupportedShape

if TYPE_CHECKING:
    import torch

GROUP = 32
HALF_GROUP = 16


@dataclass(frozen=True, slots=True)
class QuantisedMatrix:
    """`numbers` [outputs, groups · 32] int8, or [outputs, groups · 16] uint8 of two numbers each.

    `scales` are float16 and lie side by side for neighbouring outputs: [groups, outputs], in 4 bits
    [groups, outputs, 2], the scale and the minimum.
    """

    numbers: torch.Tensor
    scales: torch.Tensor
    width: int

    def __post_init__(self) -> None:
        """Raise UnsupportedShape where they do not fit each other."""
        groups = -(-self.width // GROUP)
        outputs = self.numbers.shape[0]
        ends = (groups * HALF_GROUP, (2,)) if self.is_four_bit else (groups * GROUP, ())
        expected = (outputs, ends[0]), (groups, outputs, *ends[1])
        got = tuple(self.numbers.shape), tuple(self.scales.shape)
        if expected != got:
            raise UnsupportedShape(
                f"a matrix of width {self.width} has numbers and scales {expected}, got {got}"
            )

    @property
    def is_four_bit(self) -> bool:
        """Whether a byte has two numbers."""
        return not self.numbers.dtype.is_signed

    @property
    def outputs(self) -> int:
        """Rows of the matrix."""
        return int(self.numbers.shape[0])


def dequantise(matrix: QuantisedMatrix, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Return the matrix, or those rows [count] int64 of it, in float32 [outputs, width]."""
    numbers, scales = matrix.numbers, matrix.scales.float().transpose(0, 1)
    if rows is not None:
        numbers, scales = numbers[rows], scales[rows]
    if matrix.is_four_bit:
        groups = _unpacked(numbers).float() * scales[..., :1] + scales[..., 1:]
    else:
        groups = _in_order(numbers).float() * scales.unsqueeze(-1)
    return groups.flatten(1)[:, : matrix.width]


def project(
    x: torch.Tensor, matrix: QuantisedMatrix, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return x Wᵀ + b [rows, outputs] of x [rows, width]: summed in float32, rounded once."""
    import torch.nn.functional as F  # the package is imported where torch is not

    wide = None if bias is None else bias.float()
    return F.linear(x.float(), dequantise(matrix), wide).to(x.dtype)


def _in_order(numbers: torch.Tensor) -> torch.Tensor:
    """Return 8-bit numbers [outputs, groups, 32] in the order of inputs."""
    return numbers.unflatten(1, (-1, HALF_GROUP, 2)).transpose(2, 3).flatten(2)


def _unpacked(packed: torch.Tensor) -> torch.Tensor:
    """Return 4-bit numbers [outputs, groups, 32] in the order of inputs."""
    import torch

    words = packed.unflatten(1, (-1, HALF_GROUP // 2, 2))
    low, high = words.bitwise_and(15), words.bitwise_right_shift(4)
    parts = (low[..., 0], high[..., 0], low[..., 1], high[..., 1])
    return torch.cat(parts, -1)
