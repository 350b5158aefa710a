"""An int8 cache: what is written comes back to within half a step, and is attended to as meant."""

import pytest
import torch

from localpaged_kernels import UnsupportedShape, paged_attention, write_kv
from localpaged_kernels.kv_cache.reference import quantise
from localpaged_kernels.paged_attention import reference
from testkit.attention_inputs import NUM_BLOCKS, ROWS, build


def as_int8(kv):
    """Return int8 numbers and scales of a float cache; the read padding stays zero."""
    return quantise(kv)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("is_shuffled", [True, False], ids=["scattered", "side by side"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_cpu_path_means_what_the_reference_means(rows, window, is_shuffled, dtype):
    queries, kv, batch = build(rows, dtype=dtype, is_shuffled=is_shuffled)
    numbers, scales = as_int8(kv)
    got = paged_attention(queries, numbers, batch, scale=0.3, window=window, kv_scales=scales)
    want = reference.paged_attention(
        queries, numbers, batch, scale=0.3, window=window, kv_scales=scales
    )
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("kv_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_cache_may_be_of_another_float_than_the_queries(dtype, kv_dtype):
    queries, kv, batch = build(ROWS["mixed"], dtype=kv_dtype)
    queries = queries.to(dtype)
    got = paged_attention(queries, kv, batch, scale=0.3)
    want = reference.paged_attention(queries, kv, batch, scale=0.3)
    assert got.dtype is dtype
    torch.testing.assert_close(got, want, atol=2e-2, rtol=2e-2)


def test_the_reference_with_scales_is_the_reference_on_the_products():
    queries, kv, batch = build(ROWS["mixed"])
    numbers, scales = as_int8(kv)
    got = reference.paged_attention(queries, numbers, batch, scale=0.3, kv_scales=scales)
    want = reference.paged_attention(queries, numbers * scales.unsqueeze(-1), batch, scale=0.3)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("magnitude", [1e-6, 1.0, 3e4])
def test_what_is_written_is_read_to_within_half_a_step(magnitude):
    numbers = torch.full((5, 4, 2, 3, 64), 77, dtype=torch.int8)
    scales = torch.full((5, 4, 2, 3), 9.0)
    keys, values = torch.randn(2, 3, 3, 64) * magnitude
    slots = torch.tensor([6, 19, 4])
    write_kv(numbers, keys, values, slots, scales=scales)
    for i, slot in enumerate(slots.tolist()):
        for side, rows in enumerate((keys, values)):
            row_scales = scales[slot // 4, slot % 4, side]
            read = numbers[slot // 4, slot % 4, side] * row_scales.unsqueeze(-1)
            error = (read - rows[i]).abs().amax(-1)
            assert (error <= 0.5001 * row_scales).all()
            torch.testing.assert_close(row_scales, rows[i].abs().amax(-1) / 127)
    assert (scales == 9.0).sum() == (5 * 4 - 3) * 2 * 3, "other slots were written"


def test_rounding_is_symmetric_and_zero_stays_zero():
    rows = torch.tensor([[127.0, 0.4, 0.6, -126.6], [0.0, 0.0, 0.0, 0.0]])
    numbers, scales = quantise(rows)
    assert numbers.tolist() == [[127, 0, 1, -127], [0, 0, 0, 0]]
    assert scales.tolist() == [1.0, 0.0]
    mirrored, _ = quantise(-rows)
    assert torch.equal(mirrored, -numbers)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_visible(bad):
    numbers, scales = quantise(torch.tensor([[1.0, bad]]))
    assert not (numbers * scales.unsqueeze(-1)).isfinite().all()


def test_memory_is_little_more_than_half_of_bfloat16():
    numbers = torch.zeros(NUM_BLOCKS, 16, 2, 3, 64, dtype=torch.int8)
    scales = torch.zeros(NUM_BLOCKS, 16, 2, 3)
    assert (numbers.nbytes + scales.nbytes) / (2 * numbers.nbytes) < 0.55


def test_scales_belong_to_int8_and_must_fit():
    numbers, scales = torch.zeros(5, 4, 2, 3, 8, dtype=torch.int8), torch.zeros(5, 4, 2, 3)
    rows, slots = torch.zeros(1, 3, 8), torch.tensor([0])
    for kv, wrong in ((numbers, None), (numbers, scales[1:]), (numbers.float(), scales)):
        with pytest.raises(UnsupportedShape, match="fp8 cache needs"):
            write_kv(kv, rows, rows, slots, scales=wrong)
