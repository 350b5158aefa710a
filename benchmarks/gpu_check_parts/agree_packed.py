"""Comparisons of projections by weights in 8 and 4 bits with the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from gpu_check_parts.agree_attention import BEYOND_NAME
from gpu_check_parts.comparing import equal, share_of_tolerance
from gpu_check_parts.packed import counters, random_matrix
from localpaged_kernels.quantised_linear import reference, triton_impl
from localpaged_kernels.quantised_linear.reference import QuantisedMatrix

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
ROUNDING = {FP32: 1e-4, BF16: 2e-2, FP16: 4e-3}
"""Of what is largest in a result."""

FAR_ROW_BYTES = 2**25 + 16
FAR_OUTPUTS = 70

Compare = Callable[[torch.device], float]


def cases(*, is_tiny: bool) -> dict[str, dict[str, Compare]]:
    """Return comparisons by operator and name."""
    if is_tiny:
        made = {f"{bits} bits, bf16": partial(_project, bits, BF16, 3, 40, 96) for bits in (8, 4)}
        return {"packed linear": made | {"rows by id": partial(_by_id, 8, BF16)}}
    shapes = {
        (1, 6_144, 4_096): BF16,
        (16, 1_024, 12_288): BF16,
        (33, 2_560, 9_728): BF16,
        (64, 6_144, 4_096): BF16,
        (150, 1_500, 1_024): BF16,
        (300, 2_048, 4_096): BF16,
        (5, 960, 576): FP16,
        (40, 960, 576): FP16,
        (3, 960, 576): FP32,
    }
    made = {}
    for bits in (8, 4):
        for (rows, outputs, width), dtype in shapes.items():
            name = f"{bits} bits, {_name(dtype)}, {rows} rows, {outputs:,} × {width:,}"
            made[name] = partial(_project, bits, dtype, rows, outputs, width)
        made[f"{bits} bits, the same bits again"] = partial(_again, bits)
        made[f"{bits} bits, rows by id"] = partial(_by_id, bits, BF16)
        made[f"{BEYOND_NAME}, {bits} bits"] = partial(_far, bits)
    return {"packed linear": made}


def _project(
    bits: int, dtype: torch.dtype, rows: int, outputs: int, width: int, device: torch.device
) -> float:
    matrix = random_matrix(bits, outputs, width, device)
    wide = torch.full((rows + 64, width + 16), float("nan"), dtype=dtype, device=device)
    wide[:rows, :width] = torch.randn(rows, width, device=device).to(dtype)
    x, bias = wide[:rows, :width], torch.linspace(-1, 1, outputs, device=device).to(dtype)
    got = triton_impl.project(x, matrix, bias, arrivals=counters(matrix))
    return _off(got, x, matrix, bias)


def _off(
    got: torch.Tensor, x: torch.Tensor, matrix: QuantisedMatrix, bias: torch.Tensor | None
) -> float:
    here = QuantisedMatrix(matrix.numbers.cpu(), matrix.scales.cpu(), matrix.width)
    want = reference.project(x.cpu(), here, None if bias is None else bias.cpu())
    most = float(want.float().abs().max())
    return share_of_tolerance(got, want, absolute=ROUNDING[x.dtype] * most, relative=0.0)


def _again(bits: int, device: torch.device) -> float:
    """Parts come in any order and are put together in one."""
    matrix = random_matrix(bits, 1_024, 8_192, device)
    x, counted = torch.randn(2, 8_192, device=device).to(BF16), counters(matrix)
    results = [triton_impl.project(x, matrix, arrivals=counted) for _ in range(20)]
    return max(equal(result, results[0]) for result in results)


def _by_id(bits: int, dtype: torch.dtype, device: torch.device) -> float:
    matrix = random_matrix(bits, 50, 576, device)
    ids = torch.tensor([49, 0, 7, 7, 31], device=device)
    got = triton_impl.rows_of(matrix, ids, dtype)
    here = QuantisedMatrix(matrix.numbers.cpu(), matrix.scales.cpu(), matrix.width)
    want = reference.dequantise(here, ids.cpu())
    return share_of_tolerance(got, want, absolute=1e-5, relative=2**-7)


def _far(bits: int, device: torch.device) -> float:
    """Rows lie far apart, so that few of them reach as far as a large vocabulary's."""
    near = random_matrix(bits, FAR_OUTPUTS, 64, device)
    memory = torch.zeros(FAR_OUTPUTS * FAR_ROW_BYTES, dtype=torch.uint8, device=device)
    numbers = torch.as_strided(
        memory.view(near.numbers.dtype), near.numbers.shape, (FAR_ROW_BYTES, 1)
    )
    numbers.copy_(near.numbers)
    far = QuantisedMatrix(numbers, near.scales, 64)
    x = torch.randn(2, 64, device=device).to(BF16)
    return _off(triton_impl.project(x, far, arrivals=counters(far)), x, near, None)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
