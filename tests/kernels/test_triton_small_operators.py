"""Block copies, norms and gated activations by Triton do what their references do."""

import pytest
import torch
import torch.nn.functional as F

from localpaged_kernels import copy_blocks
from localpaged_kernels.gated import reference as gated_reference
from localpaged_kernels.gated import triton_impl as gated_triton
from localpaged_kernels.kv_cache import triton_impl as blocks_triton
from localpaged_kernels.norm import reference as norm_reference
from localpaged_kernels.norm import triton_impl as norm_triton
from testkit.triton_inputs import DEVICE, endless

BF16, HALF, FP32 = torch.bfloat16, torch.float16, torch.float32
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp")
TOLERANCE = {FP32: 1e-5, BF16: 2e-2, HALF: 2e-3}


def ids(*numbers):
    return torch.tensor(numbers, device=DEVICE)


def fenced(rows, columns, dtype):
    """Return random numbers between which lies what is not a number."""
    wide = torch.full((rows, columns + 3), float("nan"), dtype=dtype)
    wide[:, :columns] = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)) * 3
    return wide[:, :columns]


@pytest.mark.parametrize("dtype", [FP32, BF16, torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("dim", [5, 64])
def test_copies_read_everything_before_they_write(dtype, dim):
    generator = torch.Generator().manual_seed(0)
    kv = torch.randint(0, 120, (3, 6, 3, 2, 1, dim), generator=generator).to(dtype)
    want = kv.clone() if dtype.itemsize > 1 else kv.view(torch.int8).clone()
    copy_blocks(want, torch.tensor([2, 3, 0]), torch.tensor([3, 4, 2]))
    kv = kv.to(DEVICE)
    blocks_triton.copy_blocks(kv, ids(2, 3, 0), ids(3, 4, 2))
    got = kv.cpu()
    assert torch.equal(got if dtype.itemsize > 1 else got.view(torch.int8), want)


def test_blocks_that_are_apart_are_copied_at_once():
    kv = torch.randn(2, 6, 16, 2, 2, 64, device=DEVICE)
    before = kv.clone()
    blocks_triton.copy_blocks(kv, ids(0, 5), ids(3, 1), is_apart=True)
    assert torch.equal(kv[:, [3, 1]], before[:, [0, 5]])
    assert torch.equal(kv[:, [0, 2, 4, 5]], before[:, [0, 2, 4, 5]])


def test_what_leaves_and_comes_back_is_the_same():
    kv = torch.randn(2, 7, 16, 2, 1, 80, device=DEVICE)
    piece = blocks_triton.gather_blocks(kv, ids(6, 2, 3))
    assert torch.equal(piece, kv[:, [6, 2, 3]])
    other = torch.zeros_like(kv)
    blocks_triton.scatter_blocks(other, ids(1, 0, 5), piece)
    assert torch.equal(other[:, [1, 0, 5]], piece)
    assert not other[:, [2, 3, 4, 6]].any()


def test_blocks_beyond_two_to_the_31st_word_are_copied():
    block_bytes = 2**16
    num_blocks = 2**34 // block_bytes + 3
    kv = endless((1, num_blocks, block_bytes), torch.int8)
    kv[0, 1] = torch.arange(block_bytes).to(torch.int8)
    blocks_triton.copy_blocks(kv, ids(1), ids(num_blocks - 1), is_apart=True)
    assert torch.equal(kv[0, -1], kv[0, 1])


@pytest.mark.parametrize("dtype", [FP32, BF16, HALF], ids=str)
@pytest.mark.parametrize(("rows", "hidden"), [(1, 64), (5, 576), (3, 1025)])
@pytest.mark.parametrize("has_residual", [True, False])
def test_the_norm(rows, hidden, dtype, has_residual):
    x, weight = fenced(rows, hidden, dtype), torch.linspace(-2, 2, hidden).to(dtype)
    residual = fenced(rows + 1, hidden, dtype)[1:] if has_residual else None
    want, want_total = norm_reference.add_rms_norm(x, residual, weight, eps=1e-5)
    got, total = norm_triton.add_rms_norm(
        x.to(DEVICE),
        None if residual is None else residual.to(DEVICE),
        weight.to(DEVICE),
        eps=1e-5,
    )
    torch.testing.assert_close(got.cpu(), want, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    # The interpreter cuts what does not fit into bfloat16 off.
    torch.testing.assert_close(total.cpu(), want_total, atol=0, rtol=2**-7 if dtype is BF16 else 0)


@pytest.mark.parametrize("dtype", [FP32, BF16, HALF], ids=str)
@pytest.mark.parametrize(("rows", "hidden"), [(1, 64), (5, 576), (3, 1025)])
def test_what_the_norm_adds_may_be_a_norm_itself(rows, hidden, dtype):
    x, residual = fenced(rows, hidden, dtype), fenced(rows + 1, hidden, dtype)[1:]
    weight, x_weight = (torch.linspace(-2, end, hidden).to(dtype) for end in (2, 3))
    want, want_total = norm_reference.add_rms_norm(x, residual, weight, eps=1e-5, x_weight=x_weight)
    got, total = norm_triton.add_rms_norm(
        x.to(DEVICE), residual.to(DEVICE), weight.to(DEVICE), eps=1e-5, x_weight=x_weight.to(DEVICE)
    )
    added = F.rms_norm(x.float(), (hidden,), x_weight.float(), 1e-5) + residual.float()
    wide = 3 * TOLERANCE[dtype]
    torch.testing.assert_close(want_total.float(), added, atol=wide, rtol=wide)
    torch.testing.assert_close(total.cpu(), want_total, atol=wide, rtol=wide)
    torch.testing.assert_close(got.cpu(), want, atol=wide, rtol=wide)


def test_the_norm_without_a_weight_is_torchs_and_a_broken_row_breaks_no_other():
    x = fenced(3, 100, FP32).clone()
    x[1, 7] = float("nan")
    got, _ = norm_triton.add_rms_norm(x.to(DEVICE), None, None, eps=1e-6)
    assert got[1].isnan().all()
    want = F.rms_norm(x, (100,), None, 1e-6)
    torch.testing.assert_close(got.cpu()[[0, 2]], want[[0, 2]])


@pytest.mark.parametrize("dtype", [FP32, BF16, HALF], ids=str)
@pytest.mark.parametrize("gate", ["silu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("width", [48, 1100])
def test_gates(gate, width, dtype):
    gate_up = fenced(3, 2 * width, dtype)
    want = gated_reference.gated(gate_up, gate)
    got = gated_triton.gated(gate_up.to(DEVICE), gate)
    torch.testing.assert_close(got.cpu(), want, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_gates_of_very_large_numbers_stay_finite():
    gate_up = torch.tensor([[100.0, -100.0, 1e4, -1e4, 1.0, 1.0, 1.0, 1.0]])
    for gate in ("silu", "gelu", "gelu_tanh"):
        got = gated_triton.gated(gate_up.to(DEVICE), gate).cpu()
        torch.testing.assert_close(got, torch.tensor([[100.0, 0.0, 1e4, 0.0]]))
