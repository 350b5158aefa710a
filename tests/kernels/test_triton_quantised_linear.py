"""Projections by weights in 8 and 4 bits by Triton do what their reference does."""

import pytest
import torch
import torch.nn.functional as F

from localpaged_kernels.card import Card
from localpaged_kernels.errors import UnsupportedShape
from localpaged_kernels.quantised_linear import reference, triton_impl
from localpaged_kernels.quantised_linear.reference import GROUP, QuantisedMatrix
from testkit.quantised import HALF, random_matrix, random_rows
from testkit.triton_inputs import DEVICE, endless

BF16, FP32 = torch.bfloat16, torch.float32
TOLERANCE = {FP32: 1e-5, BF16: 2e-2, HALF: 2e-3}
CARD = Card((8, 9), 24)


def moved(matrix):
    return QuantisedMatrix(matrix.numbers.to(DEVICE), matrix.scales.to(DEVICE), matrix.width)


def project(x, matrix, bias=None, **how):
    """Project by Triton into memory that is not a number, beside which nothing is written."""
    counters = torch.zeros(
        triton_impl.num_counters(matrix.outputs), dtype=torch.int32, device=DEVICE
    )
    memory = torch.full((x.shape[0] + 1, matrix.outputs), float("nan"), dtype=x.dtype)
    memory = memory.to(DEVICE)
    launch = triton_impl.plan(
        memory[:-1],
        x.to(DEVICE),
        moved(matrix),
        None if bias is None else bias.to(DEVICE),
        arrivals=counters,
        **how,
    )
    launch.run()
    assert not counters.any()
    assert memory[-1].isnan().all()
    return memory[:-1].cpu(), launch


def close(got, want, dtype):
    torch.testing.assert_close(
        got.float(), want.float(), atol=TOLERANCE[dtype] * float(want.abs().max()), rtol=0
    )


@pytest.mark.parametrize("dtype", [FP32, BF16, HALF], ids=str)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    ("rows", "outputs", "width"),
    [(1, 96, 256), (16, 70, 288), (17, 33, 48), (130, 65, 96)],
    ids=["one row", "few", "an odd width", "many"],
)
def test_few_rows(rows, outputs, width, bits, dtype):
    matrix = random_matrix(bits, outputs, width)
    x = random_rows(rows, width, dtype)
    got, _ = project(x, matrix)
    close(got, reference.project(x, matrix), dtype)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [3, 70])
def test_inputs_in_parts_are_put_together_by_the_last_with_the_bias_once(rows, bits):
    matrix = random_matrix(bits, 40, 520)
    x, bias = random_rows(rows, 520, FP32), torch.linspace(-3, 3, 40)
    want = reference.project(x, matrix, bias)
    results = []
    for splits in (1, 3, 7):  # of nine tiles or more: some parts are empty
        got, launch = project(x, matrix, bias, num_splits=splits)
        assert launch.grid[2] == splits
        close(got, want, FP32)
        results.append(got)
    assert torch.equal(project(x, matrix, bias, num_splits=7)[0], results[2])


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("has_bias", [False, True])
def test_more_rows_are_multiplied_by_torch_in_pieces_of_the_matrix(monkeypatch, bits, has_bias):
    monkeypatch.setattr(triton_impl, "PIECE_NUMBERS", 40 * 96)
    matrix = random_matrix(bits, 90, 96)
    x = random_rows(triton_impl.PACKED_ROWS + 1, 96, FP32)
    bias = torch.linspace(-1, 1, 90) if has_bias else None
    got = triton_impl.project(
        x.to(DEVICE),
        moved(matrix),
        None if bias is None else bias.to(DEVICE),
        arrivals=torch.zeros(99, dtype=torch.int32, device=DEVICE),
    )
    close(got.cpu(), reference.project(x, matrix, bias), FP32)


def test_what_stays_packed_has_no_piece_made_wide(monkeypatch):
    monkeypatch.setattr(triton_impl, "PACKED_ROWS", 2)
    monkeypatch.setattr(triton_impl, "plan_dequantise", None)
    matrix, x = random_matrix(8, 40, 64), random_rows(5, 64, FP32)
    counters = torch.zeros(99, dtype=torch.int32, device=DEVICE)
    got = triton_impl.project(x.to(DEVICE), moved(matrix), arrivals=counters, stays_packed=True)
    close(got.cpu(), reference.project(x, matrix), FP32)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("width", [32, 96, 48])
def test_rows_of_a_matrix_become_the_numbers_that_are_meant(bits, width):
    matrix = random_matrix(bits, 37, width)
    ids = torch.tensor([36, 0, 5, 5, 7])
    got = triton_impl.rows_of(moved(matrix), ids.to(DEVICE), FP32)
    want = reference.dequantise(matrix, ids)
    torch.testing.assert_close(got.cpu(), want, atol=1e-6, rtol=1e-6)
    assert torch.equal(want, reference.dequantise(matrix)[ids])


def test_what_a_matrix_means():
    # words of 16 bits: j, j + 8, j + 16 and j + 24, lowest first
    inputs = [(3 * k) % 16 for k in range(32)]
    words = [sum(inputs[j + 8 * part] << 4 * part for part in range(4)) for j in range(8)]
    numbers = torch.tensor([b for word in words for b in divmod(word, 256)[::-1]])
    scales = torch.tensor([[[0.5, -1.0]]], dtype=HALF)
    matrix = QuantisedMatrix(numbers.to(torch.uint8)[None], scales, 32)
    assert reference.dequantise(matrix)[0].tolist() == [n * 0.5 - 1 for n in inputs]
    # words of 16 bits: j and j + 16
    numbers = torch.tensor([b for j in range(16) for b in (j - 16, j)], dtype=torch.int8)[None]
    matrix = QuantisedMatrix(numbers, torch.tensor([[0.25]], dtype=HALF), 20)
    assert torch.equal(reference.dequantise(matrix), torch.arange(-16, 4)[None] * 0.25)


@pytest.mark.parametrize("bits", [8, 4])
def test_all_numbers_there_are_come_out_exactly(bits):
    """Scales of one: each number of 8 bits, each pair of 4, in its own place."""
    if bits == 8:
        numbers = torch.arange(-128, 128).to(torch.int8).view(8, 32)
        scales = torch.ones(1, 8, dtype=HALF)
    else:
        numbers = torch.arange(256).to(torch.uint8).view(16, 16)
        scales = torch.tensor([1.0, 0.0]).to(HALF).repeat(1, 16, 1)
    matrix = QuantisedMatrix(numbers, scales, 32)
    got, _ = project(torch.eye(32), matrix)
    assert torch.equal(got.t(), reference.dequantise(matrix))


def test_rows_beyond_what_there_is_and_numbers_behind_a_row_are_not_read():
    x = random_rows(5, 80, FP32)
    assert x.stride(0) > 80
    got, _ = project(x, random_matrix(4, 64, 80))
    assert got.isfinite().all()


def test_a_row_that_is_not_finite_breaks_no_other():
    matrix, x = random_matrix(4, 64, 128), random_rows(4, 128, FP32)
    x[2, 5] = float("nan")
    got, _ = project(x, matrix)
    assert got[2].isnan().all()
    assert got[[0, 1, 3]].isfinite().all()


@pytest.mark.parametrize("bits", [8, 4])
def test_matrices_beyond_two_to_the_31st_byte(bits):
    """Rows lie far apart, so that few of them reach as far as a large vocabulary's."""
    near = random_matrix(bits, 70, 64)
    stride = 2**25 + 16
    memory = endless((70 * stride,), torch.uint8).view(near.numbers.dtype)
    numbers = torch.as_strided(memory, near.numbers.shape, (stride, 1))
    numbers.copy_(near.numbers)
    far = QuantisedMatrix(numbers, near.scales.to(DEVICE), 64)
    ids = torch.tensor([69, 64, 3], device=DEVICE)
    want = reference.dequantise(near)
    got = triton_impl.rows_of(far, ids, FP32)
    torch.testing.assert_close(got.cpu(), want[ids.cpu()], atol=1e-6, rtol=1e-6)
    x = random_rows(2, 64, FP32)
    out = torch.empty(2, 70, device=DEVICE)
    counters = torch.zeros(99, dtype=torch.int32, device=DEVICE)
    triton_impl.plan(out, x.to(DEVICE), far, arrivals=counters).run()
    close(out.cpu(), F.linear(x, want), FP32)


def test_few_programs_are_cut_into_parts_and_many_are_not():
    grids = []
    for rows, outputs in ((1, 64), (1, 1024), (1, 64 * 100), (256, 256), (257, 64)):
        x = random_rows(rows, 4096, BF16)
        meta = torch.empty(outputs, 2048, dtype=torch.uint8, device="meta")
        scales = torch.empty(128, outputs, 2, dtype=HALF, device="meta")
        matrix = QuantisedMatrix(meta, scales, 4096)
        out = torch.empty(rows, outputs, device="meta")
        launch = triton_impl.plan(out, x, matrix, arrivals=torch.empty(0), card=CARD)
        grids.append(launch.grid)
    assert grids == [(1, 1, 8), (1, 16, 3), (1, 100, 1), (4, 4, 3), (5, 1, 1)]
    assert triton_impl.num_counters(256) >= 16


def test_a_matrix_whose_parts_do_not_fit_is_refused():
    good = random_matrix(4, 6, 64)
    with pytest.raises(UnsupportedShape, match="width 96"):
        QuantisedMatrix(good.numbers, good.scales, 96)
    with pytest.raises(UnsupportedShape, match="width 64"):
        QuantisedMatrix(good.numbers.view(torch.int8), good.scales, 64)
    assert GROUP == 32
