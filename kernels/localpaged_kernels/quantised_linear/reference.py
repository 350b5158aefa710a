"""What a matrix in 8 or 4 bits means, in plain torch: numbers, groups of 32, scales.

A matrix [outputs, width] has groups of 32 numbers along its rows; the last one may be shorter and
is filled up. In 8 bits w = number · scale. In 4 bits w = number · scale + minimum, and byte j of a
group's 16 has number j below and number j + 16 above: GGUF's Q8_0 and Q4_1.
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
        packed = numbers.unflatten(1, (-1, HALF_GROUP))
        groups = _halves(packed).float() * scales[..., :1] + scales[..., 1:]
    else:
        groups = numbers.unflatten(1, (-1, GROUP)).float() * scales.unsqueeze(-1)
    return groups.flatten(1)[:, : matrix.width]


def project(
    x: torch.Tensor, matrix: QuantisedMatrix, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return x Wᵀ + b [rows, outputs] of x [rows, width]: summed in float32, rounded once."""
    import torch.nn.functional as F  # the package is imported where torch is not

    wide = None if bias is None else bias.float()
    return F.linear(x.float(), dequantise(matrix), wide).to(x.dtype)


def _halves(packed: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.cat((packed.bitwise_and(15), packed.bitwise_right_shift(4)), -1)
