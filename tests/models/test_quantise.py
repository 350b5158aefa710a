"""Matrices in groups for a card: taken over from files that have them so, else rounded well."""

import gguf
import numpy as np
import pytest
import torch

from localpaged.errors import UnsupportedModel
from localpaged.models import weights
from localpaged.models.dequantise import dequantise
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import OpenedModel
from localpaged.models.quantise import SHRINKS, empty_quantised, rounded, taken_over
from localpaged.models.tensor_layout import tensor_layout
from localpaged.models.weight_forms import form_of, forms_of, main_form, num_bytes
from localpaged.models.weights import load_state
from localpaged_kernels.quantised_linear.reference import QuantisedMatrix
from localpaged_kernels.quantised_linear.reference import dequantise as meant
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import save_tiny_model

TYPES = gguf.GGMLQuantizationType


def numbers(rows=12, width=256):
    generator = torch.Generator().manual_seed(3)
    drawn = torch.randn(rows, width, generator=generator) * 0.05
    drawn[1, :40] = 0  # a whole group, and a part of one
    drawn[2, 5] = 1.5
    return drawn


def raw_of(type_name, wide):
    if type_name == "Q4_K":  # which the library does not write
        generator = np.random.default_rng(5)
        blocks = generator.integers(0, 256, (wide.shape[0], wide.shape[1] // 256 * 144))
        raw = blocks.astype(np.uint8).reshape(wide.shape[0], -1, 144)
        factors = generator.uniform(1e-4, 1e-2, (*raw.shape[:2], 2)).astype(np.float16)
        raw[..., :4] = factors.view(np.uint8)
        return torch.from_numpy(raw.reshape(wide.shape[0], -1))
    return torch.from_numpy(gguf.quants.quantize(wide.numpy(), TYPES[type_name]).view(np.uint8))


def of_groups(groups, width):
    return meant(QuantisedMatrix(*groups, width))


@pytest.mark.parametrize(
    ("type_name", "form"), [("Q8_0", "int8"), ("Q4_0", "int4"), ("Q4_1", "int4")]
)
def test_a_files_groups_are_taken_over_to_the_last_bit(type_name, form):
    raw = raw_of(type_name, numbers())
    expected = torch.empty(12, 256)
    dequantise(type_name, raw, expected)
    assert torch.equal(of_groups(taken_over(type_name, raw, form), 256), expected)


def test_numbers_of_q4_k_stay_and_its_scales_are_rounded_to_half_precision():
    raw = raw_of("Q4_K", numbers(6, 512))
    expected = torch.empty(6, 512)
    dequantise("Q4_K", raw, expected)
    made = taken_over("Q4_K", raw, "int4")
    got = of_groups(made, 512)
    scales = made[1].float().abs()
    most = (15 * scales[..., 0] + scales[..., 1]).t().repeat_interleave(32, 1)
    assert ((got - expected).abs() <= most * 2**-11).all()
    assert (got != 0).any()


@pytest.mark.parametrize("type_name", ["Q4_K", "Q5_K", "Q6_K", "Q8_0", "F32"])
@pytest.mark.parametrize("form", ["int8", "int4"])
def test_only_groups_of_the_same_form_are_taken_over(type_name, form):
    raw = torch.zeros(2, 0, dtype=torch.uint8)
    if (type_name, form) in {("Q4_K", "int4"), ("Q8_0", "int8")}:
        return
    assert taken_over(type_name, raw, form) is None


def test_eight_bits_are_off_by_half_a_step_at_most():
    wide = numbers()
    got = of_groups(rounded(wide, "int8"), 256)
    most = wide.unflatten(1, (-1, 32)).abs().amax(-1, keepdim=True)
    off = (got - wide).unflatten(1, (-1, 32)).abs()
    assert (off <= most / 127 * (0.5 + 0.07)).all()  # the scale itself is rounded
    assert torch.equal(got[1, :32], torch.zeros(32))


def test_four_bits_are_never_worse_than_the_library_and_mostly_better():
    wide = torch.randn(64, 512, generator=torch.Generator().manual_seed(1))
    got = of_groups(rounded(wide, "int4"), 512)
    theirs = torch.empty(64, 512)
    dequantise("Q4_1", raw_of("Q4_1", wide), theirs)
    ours, other = ((found - wide).square().mean().item() for found in (got, theirs))
    assert ours < 0.95 * other
    whole = (wide - wide.mean()).square().mean().item()
    assert ours < 0.007 * whole
    assert SHRINKS[0] == 1.0


@pytest.mark.parametrize("form", ["int8", "int4"])
@pytest.mark.parametrize("number", [0.0, 0.25, -1e-9, 60_000.0])
def test_a_group_of_equal_numbers(form, number):
    got = of_groups(rounded(torch.full((2, 64), number), form), 64)
    assert torch.allclose(got, torch.full((2, 64), number), rtol=1e-2, atol=1e-7)


@pytest.mark.parametrize("number", [1e5, float("nan"), float("inf")])
def test_numbers_that_scales_do_not_hold_are_refused(number):
    made = empty_quantised((2, 32), "int4", None)
    wide = torch.zeros(2, 32)
    wide[1, 3] = number
    with pytest.raises(UnsupportedModel, match=r"65,504.*int4") as refused:
        made.put(0, "F32", wide.view(torch.uint8))
    assert "--dtype bfloat16" in refused.value.hint


def of_state(state, name, width):
    for form in ("int8", "int4"):
        if f"{name}.{form}" in state:
            return of_groups((state[f"{name}.{form}"], state[f"{name}.{form}_scales"]), width)
    return state[f"{name}.weight"]


@pytest.mark.parametrize(
    ("family", "quantisation", "form"),
    [("llama", "Q4_1", "int4"), ("llama3-rope", "Q4_0", "int4"), ("qwen3", "Q8_0", "int8")],
)
def test_a_file_in_groups_is_loaded_as_what_it_means(tmp_path, family, quantisation, form):
    opened = open_model(save_tiny_gguf(tmp_path, family, quantisation=quantisation))
    expected = load_state(opened, dtype=torch.float32)
    state = load_state(opened, dtype=torch.float32, weights="file")
    for fused in tensor_layout(opened.config):
        stem = fused.name.removesuffix(".weight")
        is_matrix = len(fused.shape) == 2
        assert (f"{stem}.{form}" in state) == is_matrix
        if is_matrix:
            assert torch.equal(of_state(state, stem, fused.shape[1]), expected[fused.name]), stem
        else:
            assert torch.equal(state[fused.name], expected[fused.name])


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_the_numbers_do_not_depend_on_chunks_or_the_device(tmp_path, monkeypatch, form):
    opened = open_model(save_tiny_gguf(tmp_path, "llama", quantisation="Q5_1"))
    whole = load_state(opened, dtype=torch.bfloat16, weights=form)
    monkeypatch.setattr(weights, "DEVICE_CHUNK_ITEMS", 1_000)
    cut = load_state(opened, dtype=torch.bfloat16, weights=form, device=torch.device("cpu"))
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    assert whole["head.int8"].dtype == torch.int8
    assert f"embed.{form}" in whole
    assert whole[f"layers.0.down.{form}"].shape[0] == 64


def test_bytes_are_known_before_anything_is_read(tmp_path):
    folder = save_tiny_model(tmp_path / "model", "qwen2")
    files = [open_model(folder), open_model(save_tiny_gguf(tmp_path, "llama", quantisation="Q4_1"))]
    for opened in files:
        for asked in ("dense", "int8", "int4", "file"):
            state = load_state(opened, dtype=torch.bfloat16, weights=asked)
            assert opened.weight_bytes(2, asked) == sum(t.nbytes for t in state.values())


def test_what_is_mixed_in_a_file():
    opened_forms = {
        ("Q4_K", "Q4_K", "Q4_K"): "int4",
        ("Q4_K", "Q4_K", "Q6_K"): "int8",
        ("Q5_K", "Q5_K", "Q5_K"): "int8",
        ("F16", "F16", "F16"): "dense",
        ("F16", "Q4_0", "Q4_0"): "int8",
    }
    from gpu_check_parts.shapes import MODELS

    layout = {fused.name: fused for fused in tensor_layout(MODELS["Qwen3 8B"])}
    for types, form in opened_forms.items():
        assert form_of(layout["layers.0.qkv.weight"], types, "file") == form
    assert form_of(layout["head.weight"], ("Q6_K",), "file") == "int8"
    assert form_of(layout["head.weight"], ("Q4_K",), "int4") == "int8"
    assert form_of(layout["embed.weight"], ("Q4_K",), "file") == "int4"
    assert form_of(layout["embed.weight"], ("Q4_K",), "int4") == "int4"
    assert form_of(layout["embed.weight"], ("Q4_K",), "int4", is_tied=True) == "int8"
    assert form_of(layout["norm.weight"], ("F32",), "int4") == "dense"
    forms = forms_of(list(layout.values()), {}, "int4")
    assert main_form(layout.values(), forms) == "int4"
    gate_up = layout["layers.0.gate_up.weight"]
    assert num_bytes(gate_up, "int4", 2) == 24_576 * 4_096 * 5 // 8
    assert num_bytes(gate_up, "int8", 2) == 24_576 * 4_096 * 17 // 16


def test_matrices_whose_rows_are_no_whole_groups_stay_dense(tmp_path):
    opened = open_model(save_tiny_model(tmp_path, "llama", intermediate_size=80))
    state = load_state(opened, dtype=torch.bfloat16, weights="int4")
    assert "layers.0.down.weight" in state
    assert "layers.0.gate_up.int4" in state


def test_the_opened_model_tells_the_form_that_most_of_its_layers_have(tmp_path):
    four = open_model(save_tiny_gguf(tmp_path, "llama", quantisation="Q4_1"))
    plain = open_model(save_tiny_model(tmp_path / "model", "qwen2"))
    assert isinstance(four, OpenedModel)
    assert (four.file_form, plain.file_form) == ("int4", "dense")
