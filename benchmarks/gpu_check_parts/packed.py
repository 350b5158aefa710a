"""Random matrices in 8 and 4 bits, made where they are used."""

from __future__ import annotations

import torch

from localpaged_kernels.quantised_linear import triton_impl
from localpaged_kernels.quantised_linear.reference import GROUP, HALF_GROUP, QuantisedMatrix

FP16 = torch.float16


def random_matrix(bits: int, outputs: int, width: int, device: torch.device) -> QuantisedMatrix:
    """Return a matrix whose numbers are about as large as a model's."""
    groups = -(-width // GROUP)
    columns = groups * (HALF_GROUP if bits == 4 else GROUP)
    numbers = torch.randint(0, 256, (outputs, columns), dtype=torch.uint8, device=device)
    scales = 0.5 + torch.rand(groups, outputs, device=device)
    if bits == 8:
        return QuantisedMatrix(numbers.view(torch.int8), (scales * 3e-4).to(FP16), width)
    pairs = torch.stack((scales * 4e-3, scales * -3e-2), -1)
    return QuantisedMatrix(numbers, pairs.to(FP16), width)


def counters(matrix: QuantisedMatrix) -> torch.Tensor:
    """Return what a projection by a matrix counts its parts with."""
    count = triton_impl.num_counters(matrix.outputs)
    return torch.zeros(count, dtype=torch.int32, device=matrix.numbers.device)
