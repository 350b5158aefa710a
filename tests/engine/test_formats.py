"""Which number formats a processor gets: bfloat16 only where it is fast, 4-bit only beside it."""

import pytest
import torch

from localpaged.config import Settings
from localpaged.fitting.formats import choose_formats
from localpaged.fitting.room import room_on
from localpaged.models.open_model import open_model
from testkit.tiny_model import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model") / "llama", "llama")


def formats_on(monkeypatch, folder, abilities, **settings):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: abilities)
    config = open_model(folder).config
    return choose_formats(config, Settings(model="tiny", **settings), room_on())


@pytest.mark.parametrize(
    ("abilities", "activations", "projections", "few_bits"),
    [
        ({}, torch.float32, torch.float32, None),
        ({"avx512_f": True, "avx512_bf16": False}, torch.float32, torch.float32, None),
        ({"avx512_bf16": True}, torch.bfloat16, torch.float32, 4),
        ({"avx512_bf16": True, "avx512_vnni": True}, torch.bfloat16, torch.bfloat16, 8),
        (
            {"avx512_bf16": True, "avx512_vnni": True, "amx_bf16": True},
            torch.bfloat16,
            torch.bfloat16,
            8,
        ),
        ({"avx2": True, "avx_vnni": True}, torch.bfloat16, torch.bfloat16, 8),
        ({"avx2": True}, torch.bfloat16, torch.bfloat16, 8),
        ({"avx512_bf16": True, "amx_bf16": True}, torch.bfloat16, torch.bfloat16, 4),
    ],
    ids=["unknown", "no bfloat16", "bfloat16", "VNNI", "VNNI and AMX", "VNNI alone", "AVX2", "AMX"],
)
def test_a_processor_gets_what_it_is_fast_at(
    monkeypatch, folder, abilities, activations, projections, few_bits
):
    formats = formats_on(monkeypatch, folder, abilities)
    assert (formats.activations, formats.kv) == (activations, activations)
    assert formats.projections == projections
    assert (formats.has_four_bit, formats.has_eight_bit) == (few_bits == 4, few_bits == 8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_asked_for_is_not_rounded_to_eight_bits(monkeypatch, folder, dtype):
    abilities = {"avx512_bf16": True, "avx512_vnni": True}
    formats = formats_on(monkeypatch, folder, abilities, dtype=dtype)
    assert not formats.has_eight_bit
    assert formats.name == dtype


def test_float32_is_exact_everywhere_when_it_is_asked_for(monkeypatch, folder):
    formats = formats_on(monkeypatch, folder, {"amx_bf16": True}, dtype="float32")
    assert {formats.activations, formats.projections, formats.kv} == {torch.float32}
    assert not formats.has_four_bit
