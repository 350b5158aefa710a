"""The gguf library's numpy code is the truth for every quantisation."""

from __future__ import annotations

from typing import Any

import gguf
import numpy
import pytest
import torch

from localpaged.models.dequantise import block_size, can_dequantise, dequantise

READABLE = [type_.name for type_ in gguf.GGMLQuantizationType if can_dequantise(type_.name)]


def random_raw(type_name: str, *, rows: int, columns: int) -> Any:
    """Return bytes of a tensor whose scales are ordinary numbers."""
    random = numpy.random.default_rng(7)
    type_ = gguf.GGMLQuantizationType[type_name]
    numbers = random.standard_normal((rows, columns)).astype(numpy.float32)
    try:
        return gguf.quants.quantize(numbers, type_).view(numpy.uint8)
    except NotImplementedError:
        items, num_bytes = block_size(type_name)
        return random.integers(0, 60, (rows, columns // items * num_bytes), dtype=numpy.uint8)


@pytest.mark.parametrize("type_name", READABLE)
def test_numbers_are_the_librarys_bit_for_bit(type_name: str):
    raw = random_raw(type_name, rows=33, columns=512)
    expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[type_name])
    out = torch.full((33, 512), float("nan"))

    dequantise(type_name, torch.from_numpy(raw), out)

    assert numpy.isfinite(expected).all()
    assert numpy.array_equal(out.numpy().view(numpy.int32), expected.view(numpy.int32))


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K"])
def test_every_byte_value_means_what_the_library_says(type_name: str):
    items, num_bytes = block_size(type_name)
    random = numpy.random.default_rng(1)
    raw = random.integers(0, 256, (2_000, num_bytes), dtype=numpy.uint8)
    with numpy.errstate(all="ignore"):
        expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[type_name])
    out = torch.empty((2_000, items))

    dequantise(type_name, torch.from_numpy(raw), out)

    is_number = ~numpy.isnan(expected)
    assert numpy.array_equal(out.numpy()[is_number], expected[is_number])
    assert numpy.isnan(out.numpy()[~is_number]).all()


@pytest.mark.parametrize("type_name", ["F32", "F16", "BF16"])
def test_floats_go_straight_into_another_dtype(type_name: str):
    raw = random_raw(type_name, rows=3, columns=64)
    expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[type_name])
    out = torch.empty((3, 64), dtype=torch.bfloat16)

    dequantise(type_name, torch.from_numpy(raw), out)

    assert torch.equal(out, torch.from_numpy(expected).bfloat16())


def test_the_readable_types_are_those_the_library_can_dequantise():
    unreadable = {type_.name for type_ in gguf.GGMLQuantizationType} - set(READABLE)

    assert {"Q4_1", "Q5_K", "Q2_K", "IQ4_NL", "BF16"} <= set(READABLE)
    assert {"F64", "I8", "Q8_1", "Q8_K"} <= unreadable
    assert not can_dequantise("number 99")
