"""Packed 4-bit weights multiply like the numbers they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from localpaged.models.four_bit import GROUP, is_four_bit, pack_four_bit
from localpaged.models.open_model import open_model
from localpaged.models.raw_tensor import RawTensor
from localpaged.models.weights import load_state
from testkit.gguf_files import save_tiny_gguf

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("layers.0.qkv", "layers.1.gate_up", "layers.1.down", "layers.0.o")


@pytest.mark.parametrize("quantisation", ["Q4_0", "Q4_1"])
@pytest.mark.parametrize("name", NAMES)
def test_a_product_with_packed_weights_is_that_of_the_numbers(
    tmp_path: Path, quantisation: str, name: str
):
    opened = open_model(save_tiny_gguf(tmp_path, "llama", quantisation=quantisation))
    state = load_state(opened, dtype=torch.float32, with_four_bit=True)
    weight = state[f"{name}.weight"]
    inputs = torch.randn(3, weight.shape[1], generator=torch.Generator().manual_seed(1)).bfloat16()

    numbers, scales = state[f"{name}.four_bit"], state[f"{name}.four_bit_scales"]
    product = torch.ops.aten._weight_int4pack_mm_for_cpu(inputs, numbers, GROUP, scales)
    expected = inputs.float() @ weight.T
    torch.testing.assert_close(product.float(), expected, rtol=0.02, atol=0.02 * expected.std())


def test_rows_the_operator_cannot_take_stay_unpacked():
    def raw(num_rows: int) -> RawTensor:
        return RawTensor("Q4_0", (num_rows, 32), torch.zeros((num_rows, 18), dtype=torch.uint8))

    assert pack_four_bit((raw(32), raw(16))) is not None
    assert pack_four_bit((raw(32), raw(12))) is None


def test_only_the_two_simple_four_bit_types_are_packed():
    assert is_four_bit("Q4_0")
    assert is_four_bit("Q4_1")
    assert not is_four_bit("Q4_K")
    assert not is_four_bit("Q8_0")


def test_a_state_has_packed_projections_where_the_file_has_four_bits(tmp_path: Path):
    opened = open_model(save_tiny_gguf(tmp_path, "llama", quantisation="Q4_1"))

    state = load_state(opened, dtype=torch.bfloat16, with_four_bit=True)

    packed = {name for name in state if name.endswith(".four_bit")}
    assert packed == {
        f"layers.{layer}.{name}.four_bit"
        for layer in range(3)
        for name in ("qkv", "o", "gate_up", "down")
    }
    whole = load_state(
        open_model(save_tiny_gguf(tmp_path, "llama")), dtype=torch.bfloat16, with_four_bit=True
    )
    assert not [name for name in whole if "four_bit" in name]
