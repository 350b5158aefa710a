"""A row or two are projected by Triton as the reference does, norm and gate included."""

import pytest
import torch

from localpaged_kernels.few_rows import reference, triton_impl
from testkit.triton_inputs import DEVICE

BF16, HALF, FP32 = torch.bfloat16, torch.float16, torch.float32
TOLERANCE = {FP32: 2e-5, BF16: 6e-2, HALF: 6e-3}
ALL = {"has_norm": True, "has_residual": True, "has_bias": True, "gate": "silu"}


def made(*shape, seed, dtype, size=1.0):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return (numbers * size).to(dtype)


def inputs(
    rows, width, outputs, *, dtype=BF16, has_norm=False, has_residual=False, has_bias=False,
    gate=None,
):  # fmt: skip
    count = outputs * (1 if gate is None else 2)
    weight = made(count, width, seed=1, dtype=dtype, size=width**-0.5)
    tensors = {
        "residual": made(rows, width, seed=2, dtype=dtype) if has_residual else None,
        "norm": made(width, seed=3, dtype=dtype, size=0.2) + 1 if has_norm else None,
        "eps": 1e-5,
        "gate": gate,
    }
    bias = made(len(weight), seed=4, dtype=dtype) if has_bias else None
    return (made(rows, width, seed=5, dtype=dtype), weight, bias), tensors


def on_device(value):
    return value.to(DEVICE) if isinstance(value, torch.Tensor) else value


def check(rows, width, outputs, **options):
    args, tensors = inputs(rows, width, outputs, **options)
    want, want_total = reference.project(*args, **tensors)
    got, total = triton_impl.project(
        *map(on_device, args), **{name: on_device(value) for name, value in tensors.items()}
    )
    tolerance = TOLERANCE[args[0].dtype]
    torch.testing.assert_close(got.cpu(), want, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(total.cpu(), want_total, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [BF16, HALF, FP32], ids=str)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(
    "options",
    [{}, {"has_bias": True}, {"has_norm": True}, {"has_norm": True, "has_residual": True}, ALL],
    ids=lambda options: " ".join(options) or "plain",
)
def test_norm_product_and_gate_are_those_of_the_reference(rows, dtype, options):
    check(rows, 96, 40, dtype=dtype, **options)


@pytest.mark.parametrize("gate", ["silu", "gelu", "gelu_tanh"])
def test_every_gate(gate):
    check(2, 64, 48, gate=gate)


@pytest.mark.parametrize(("width", "outputs"), [(512, 300), (1_100, 7), (5, 1_000)])
def test_any_width_and_number_of_outputs(width, outputs):
    check(1, width, outputs, dtype=FP32, **ALL)


def test_programs_of_a_card_have_few_outputs_each(monkeypatch):
    monkeypatch.setattr(triton_impl, "INTERPRETED", triton_impl.ON_CARDS)
    check(2, 600, 20, **ALL)


def test_what_is_not_a_number_stays_in_its_row():
    (x, weight, _), _ = inputs(2, 64, 16)
    x[1, 3] = float("nan")
    got, _ = triton_impl.project(x.to(DEVICE), weight.to(DEVICE))
    assert got[0].isfinite().all()
    assert got[1].isnan().all()


def test_rows_may_lie_apart():
    wide = torch.full((2, 100), float("nan"))
    wide[:, :64] = made(2, 64, seed=0, dtype=FP32)
    weight = made(24, 64, seed=1, dtype=FP32, size=0.1)
    got, _ = triton_impl.project(wide.to(DEVICE)[:, :64], weight.to(DEVICE))
    torch.testing.assert_close(got.cpu(), wide[:, :64] @ weight.T, atol=2e-5, rtol=2e-5)
