"""Which form a processor's steps have, why, and whether it is compiled, is what loading does."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch

from localpaged.config import Settings
from localpaged.devices import Device
from localpaged.doctor.fact import Verdict
from localpaged.doctor.machine import format_facts
from localpaged.doctor.processor_step import step_facts
from localpaged.engine import eight_bit
from localpaged.fitting.room import Room
from localpaged.models.open_model import open_model
from testkit.machines import CPU_BUILD, CUDA_BUILD, GIB
from testkit.tiny_model import save_tiny_model

PROCESSORS = {
    "wide": ({"avx512_vnni": True, "avx_vnni": True, "avx512_bf16": True}, "AVX-512 VNNI"),
    "narrow": ({"avx_vnni": True, "avx2": True}, "AVX-VNNI"),
    "without": ({"avx2": True}, "AVX2"),
    "old": ({"avx2": True}, "AVX2"),
}


@pytest.fixture
def kept_in(monkeypatch, tmp_path):
    """Where compiled code would be kept; nothing is there."""
    compiled = pytest.importorskip("localpaged_kernels.cpu_step.compiled")
    folder = tmp_path / "cache" / "compiled"
    monkeypatch.setattr(compiled, "kept_in", lambda: folder)
    return folder


def on_processor(monkeypatch, abilities):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: abilities)
    return replace(CPU_BUILD, cpu=abilities, num_threads=3)


def facts_of(build, **settings):
    return {fact.name: fact for fact in step_facts(Settings(model="x", **settings), build)}


@pytest.mark.parametrize(("abilities", "name"), PROCESSORS.values(), ids=PROCESSORS)
def test_compiled_steps_are_told_with_their_instruction_and_threads(
    monkeypatch, kept_in, abilities, name
):
    facts = facts_of(on_processor(monkeypatch, abilities))
    assert facts["step"].numbers == {
        "form": "compiled",
        "dtype": "int8",
        "instruction": name,
        "why": None,
        "threads": 3,
    }
    assert f"in 8 bits with {name}, 3 threads" in facts["step"].value
    numbers = facts["compiled code"].numbers
    assert numbers == {"path": str(kept_in), "kept": False, "writable": True}
    assert "15 s" in facts["compiled code"].value
    assert not kept_in.parent.exists()


def test_more_threads_than_a_team_takes_are_not_told_as_used(monkeypatch, kept_in):
    build = on_processor(monkeypatch, {"avx512_vnni": True})
    assert facts_of(build, threads=1)["step"].numbers["threads"] == 1
    many = replace(build, num_threads=1_000)
    assert facts_of(many)["step"].numbers["threads"] == 64


def test_compiled_code_that_is_kept_is_told_with_its_folder(monkeypatch, kept_in):
    compiled = sys.modules["localpaged_kernels.cpu_step.compiled"]
    monkeypatch.setattr(compiled, "is_kept", lambda: True)
    fact = facts_of(on_processor(monkeypatch, {"avx_vnni": True}))["compiled code"]
    assert (fact.numbers["kept"], fact.value) == (True, f"in {kept_in}")


def test_a_folder_that_cannot_be_made_is_a_note(monkeypatch, kept_in):
    kept_in.parent.write_text("a file")
    fact = facts_of(on_processor(monkeypatch, {"avx_vnni": True}))["compiled code"]
    assert fact.verdict is Verdict.NOTE
    assert "each start" in fact.value and str(kept_in) in fact.value


@pytest.mark.parametrize(
    ("abilities", "settings", "dtype", "why"),
    [
        ({"avx2": False, "avx512_bf16": True}, {}, "bfloat16", "this processor has none of AVX-"),
        ({}, {}, "float32", "this processor has none of AVX-"),
        ({"avx512_vnni": True}, {"dtype": "float32"}, "float32", "dtype says float32"),
        ({"avx512_vnni": True}, {"dtype": "bfloat16"}, "bfloat16", "dtype says bfloat16"),
    ],
)
def test_torchs_operators_are_told_with_the_reason(monkeypatch, abilities, settings, dtype, why):
    fact = facts_of(on_processor(monkeypatch, abilities), **settings)["step"]
    numbers = fact.numbers
    assert (numbers["form"], numbers["dtype"], numbers["threads"]) == ("torch", dtype, 3)
    assert numbers["why"].startswith(why) and why in fact.value


@pytest.mark.parametrize(
    ("abilities", "dtype", "why"),
    [
        ({}, "int4", "this processor has none of AVX-"),
        ({"avx512_vnni": True}, "float16", "it is for CUDA cards"),
        ({}, "int8", "this processor has none of AVX-"),
    ],
)
def test_what_the_processor_has_no_steps_in_is_told_as_that(monkeypatch, abilities, dtype, why):
    fact = facts_of(on_processor(monkeypatch, abilities), dtype=dtype)["step"]
    numbers = fact.numbers
    assert (numbers["form"], numbers["dtype"]) == ("none", dtype)
    assert numbers["why"].startswith(why) and f"none in {dtype}: {why}" in fact.value


def test_eight_bits_that_are_asked_for_are_the_compiled_step(monkeypatch, kept_in):
    build = on_processor(monkeypatch, {"avx512_vnni": True})
    assert facts_of(build, dtype="int8") == facts_of(build)


def test_four_bits_that_are_asked_for_are_told(monkeypatch, kept_in):
    fact = facts_of(on_processor(monkeypatch, {"avx512_vnni": True}), dtype="int4")["step"]
    assert (fact.numbers["form"], fact.numbers["dtype"]) == ("compiled", "int4")
    assert "in 4 bits with AVX-512 VNNI" in fact.value


def test_a_system_without_the_calls_has_torchs_operators(monkeypatch):
    build = on_processor(monkeypatch, {"avx512_vnni": True})
    monkeypatch.setattr(eight_bit, "has_team_steps", lambda: False)
    assert facts_of(build)["step"].numbers["why"].startswith("this system")


def test_a_missing_numba_is_a_problem_with_its_way_out(monkeypatch):
    build = on_processor(monkeypatch, {"avx512_vnni": True})
    monkeypatch.setitem(sys.modules, "localpaged_kernels.cpu_step.compiled", None)
    fact = facts_of(build)["step"]
    assert (fact.verdict, "numba" in fact.value) == (Verdict.PROBLEM, True)
    assert "pip install" in fact.advice and "--dtype bfloat16" in fact.advice


def test_of_a_card_no_step_is_told_for_the_processor():
    facts = facts_of(CUDA_BUILD)
    assert list(facts) == ["step"]
    assert facts["step"].numbers == {"form": "card"}
    assert "cuda:0" in facts["step"].value


@pytest.mark.parametrize(
    ("head_dim", "weights", "why"),
    [(64, "int8", "AVX-512 VNNI"), (72, "bfloat16", "this model's shape does not allow 8 bits")],
)
def test_the_models_own_format_is_told_with_its_reason(
    monkeypatch, tmp_path, head_dim, weights, why
):
    build = on_processor(monkeypatch, PROCESSORS["wide"][0])
    opened = open_model(save_tiny_model(tmp_path / "llama", "llama", head_dim=head_dim))
    room = Room(Device(), GIB, GIB, GIB, GIB)
    (fact,) = format_facts(opened, Settings(model="x"), build, room)
    assert fact.numbers["weights"] == weights
    assert why in fact.value
