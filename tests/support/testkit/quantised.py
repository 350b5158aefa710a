"""Random matrices in 8 and 4 bits, and rows to multiply them with."""

from __future__ import annotations

import torch

from localpaged_kernels.quantised_linear.reference import GROUP, HALF_GROUP, QuantisedMatrix

HALF = torch.float16


def random_matrix(bits: int, outputs: int, width: int, *, seed: int = 0) -> QuantisedMatrix:
    """Return a matrix of random numbers; those behind its width are random, too."""
    generator = torch.Generator().manual_seed(seed)
    groups = -(-width // GROUP)
    if bits == 4:
        numbers = torch.randint(0, 256, (outputs, groups * HALF_GROUP), generator=generator)
        scales = torch.rand(groups, outputs, 2, generator=generator) * 0.02
        scales[..., 1] = -8 * scales[..., 0] + scales[..., 1]
        return QuantisedMatrix(numbers.to(torch.uint8), scales.to(HALF), width)
    numbers = torch.randint(-127, 128, (outputs, groups * GROUP), generator=generator)
    scales = torch.rand(groups, outputs, generator=generator) * 0.001
    return QuantisedMatrix(numbers.to(torch.int8), scales.to(HALF), width)


def random_rows(rows: int, width: int, dtype: torch.dtype, *, seed: int = 1) -> torch.Tensor:
    """Return random rows between and behind which lies what is not a number."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.full((rows + 64, width + 16), float("nan"), dtype=dtype)
    wide[:rows, :width] = torch.randn(rows, width, generator=generator).to(dtype)
    return wide[:rows, :width]
