"""What is told of GPUs, drivers, builds of torch and Triton, on machines that are not there."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from localpaged.cards import Card, card_trouble
from localpaged.config import Settings
from localpaged.doctor import nvidia as nvidia_module
from localpaged.doctor.fact import Verdict
from localpaged.doctor.gpu import gpu_facts, kernel_facts
from localpaged.doctor.nvidia import Nvidia, SystemGpu, read_nvidia
from localpaged.doctor.torch_build import read_torch
from testkit.machines import CARD, CPU_BUILD, CUDA_BUILD, GIB, GPU


def told(nvidia, build, device="cuda"):
    settings = Settings("m", device=device)
    facts = [*gpu_facts(nvidia, build, settings), *kernel_facts(nvidia, build, settings)]
    return {fact.name: fact for fact in facts}


def with_cards(**parts):
    return replace(CUDA_BUILD, cards=replace(CUDA_BUILD.cards, **parts))


def verdicts(facts):
    return {name: fact.verdict for name, fact in facts.items() if fact.verdict is not Verdict.OK}


def test_a_gpu_that_is_ready_has_no_problem_and_all_its_numbers():
    facts = told(GPU, CUDA_BUILD)
    assert verdicts(facts) == {}
    assert facts["GPU"].value == "RTX 4090, compute capability 8.9, 24.0 GiB, 20.0 GiB free"
    assert facts["GPU"].numbers["free_bytes"] == 20 * GIB
    assert facts["NVIDIA driver"].numbers == {"version": "580.82.07"}
    assert facts["attention"].numbers == {"implementation": "triton"}
    assert facts["computes on"].value == "cuda:0 (RTX 4090): it is the machine's card"
    assert facts["cuda:0"].value == "RTX 4090, 20.0 GiB of 24.0 GiB free"


def test_a_machine_without_a_gpu_lacks_nothing():
    facts = told(Nvidia(), CPU_BUILD, "auto")
    assert verdicts(facts) == {}
    assert facts["attention"].numbers == {"implementation": "torch"}
    assert "the processor" in facts["attention"].value


def test_a_gpu_and_a_build_for_processors_tells_how_to_get_the_other_one():
    facts = told(GPU, CPU_BUILD)
    assert verdicts(facts) == {
        "torch and GPU": Verdict.PROBLEM,
        "Triton": Verdict.PROBLEM,
        "computes on": Verdict.PROBLEM,
    }
    assert "whl/cu130" in facts["torch and GPU"].advice
    old = told(replace(GPU, driver="535.161.07"), CPU_BUILD)
    assert "580.65" in old["torch and GPU"].advice


def test_where_no_card_is_asked_for_what_it_lacks_is_a_note_with_the_reason():
    facts = told(GPU, CPU_BUILD, "auto")
    assert set(verdicts(facts).values()) == {Verdict.NOTE}
    assert facts["computes on"].value == "the processor: this torch is a build without CUDA"
    assert told(GPU, CUDA_BUILD, "cpu")["computes on"].verdict is Verdict.OK


@pytest.mark.parametrize(
    ("cuda", "driver", "least"),
    [
        ("13.0", "570.133.20", "580.65"),
        ("12.6", "520.61.05", "525.60"),
        ("13.2", "580.64.99", "580.65"),
    ],
)
def test_an_old_driver_is_told_with_the_one_that_is_needed(cuda, driver, least):
    build = with_cards(cuda=cuda, cards=(), trouble="too old")
    fact = told(replace(GPU, driver=driver), build)["torch and GPU"]
    assert fact.verdict is Verdict.PROBLEM
    assert least in fact.value and driver in fact.value
    assert least in fact.advice


def test_a_new_driver_that_does_not_answer_tells_what_torch_said():
    build = with_cards(cards=(), trouble="CUDA unknown error")
    fact = told(GPU, build)["torch and GPU"]
    assert (fact.verdict, "CUDA unknown error" in fact.value) == (Verdict.PROBLEM, True)


def test_a_card_without_a_driver_is_seen():
    fact = told(Nvidia(num_cards=1), CPU_BUILD)["NVIDIA driver"]
    assert fact.verdict is Verdict.PROBLEM
    assert "not loaded" in fact.value


def test_an_old_card_stays_unused_and_why_is_told():
    nvidia = Nvidia("580.82", (SystemGpu("RTX 2080", (7, 5), 8 * GIB, 8 * GIB),), 1)
    card = replace(CARD, name="RTX 2080", capability=(7, 5), trouble=card_trouble((7, 5), ()))
    facts = told(nvidia, with_cards(cards=(card,)))
    assert facts["GPU"].verdict is facts["cuda:0"].verdict is Verdict.PROBLEM
    assert "8.0" in facts["GPU"].advice
    assert "RTX 2080 has compute capability 7.5" in facts["computes on"].value
    facts = told(nvidia, with_cards(cards=(card,)), "auto")
    assert facts["attention"].numbers == {"implementation": "torch"}


def test_a_card_that_is_full_is_told_by_its_number():
    full = replace(CARD, free_bytes=0, trouble="cannot be opened: CUDA error: out of memory")
    facts = told(GPU, with_cards(cards=(full,)))
    assert "out of memory" in facts["cuda:0"].value
    assert "out of memory" in facts["computes on"].value
    assert "End other programs" in facts["cuda:0"].advice


def test_of_two_cards_the_one_with_most_free_memory_computes():
    other = Card(1, "RTX 3090", (8, 6), 24 * GIB, 23 * GIB)
    facts = told(GPU, with_cards(cards=(CARD, other)))
    assert facts["computes on"].numbers["device"] == "cuda:1"
    assert "of 2 cards" in facts["computes on"].value
    assert told(GPU, with_cards(cards=(CARD, other)), "cuda:0")["computes on"].numbers == {
        "device": "cuda:0",
        "why": "the settings say so",
    }
    assert facts["cuda:0"].verdict is facts["cuda:1"].verdict is Verdict.OK


@pytest.mark.parametrize(
    ("architectures", "is_right"),
    [
        (("sm_80", "sm_90"), False),
        (("sm_120",), True),
        (("sm_80", "compute_90"), True),
        (("sm_90a", "compute"), False),
    ],
)
def test_a_card_that_the_build_has_no_code_for_is_told(architectures, is_right):
    nvidia = Nvidia("580.82", (SystemGpu("RTX 5090", (12, 0)),), 1)
    fact = told(nvidia, replace(CUDA_BUILD, architectures=architectures))["GPU"]
    assert (fact.verdict is Verdict.OK) is is_right


@pytest.mark.parametrize(("triton", "verdict"), [("", "problem"), ("3.5.1", "problem")])
def test_no_triton_or_an_old_one_is_a_problem_on_a_gpu_alone(triton, verdict):
    facts = told(GPU, with_cards(triton=triton))
    fact = facts["Triton"]
    assert (fact.verdict, "3.6" in fact.advice) == (verdict, True)
    assert "Triton" in facts["computes on"].value
    assert told(Nvidia(), CPU_BUILD, "auto")["Triton"].verdict is Verdict.OK


def smi(folder, text):
    script = folder / "nvidia-smi"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose nvidia-smi a test writes, with a driver file and a bus of its own."""
    monkeypatch.setattr(nvidia_module, "DRIVER_FILE", tmp_path / "version")
    monkeypatch.setattr(nvidia_module, "PCI_DEVICES", tmp_path / "devices")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_nvidia_smi_is_read(machine):
    smi(machine, "echo '0, NVIDIA H100, 580.82.07, 9.0, 81559, 80000'")
    found = read_nvidia()
    assert found.driver == "580.82.07"
    assert found.gpus == (SystemGpu("NVIDIA H100", (9, 0), 81559 << 20, 80000 << 20),)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "mismatch"),
        ("echo nonsense", "not understood"),
        ("exit 9", "exit code 9"),
        ("exec sleep 5", "did not answer"),
    ],
)
def test_nvidia_smi_that_is_broken_is_told_and_never_waited_for(machine, monkeypatch, text, part):
    monkeypatch.setattr(nvidia_module, "ANSWER_S", 0.2)
    (machine / "version").write_text("NVRM version: NVIDIA UNIX x86_64  550.54.14  Thu Feb 22\n")
    smi(machine, text)
    found = read_nvidia()
    assert (found.driver, found.gpus) == ("550.54.14", ())
    assert part in found.trouble
    fact = told(found, CUDA_BUILD)["NVIDIA driver"]
    assert (fact.verdict, part in fact.value) == (Verdict.PROBLEM, True)


def test_a_card_on_the_bus_is_counted_and_a_sound_device_is_not(machine):
    for number, (vendor, kind) in enumerate(
        [("0x10de", "0x030000"), ("0x10de", "0x040300"), ("0x8086", "0x030000")]
    ):
        device = machine / "devices" / str(number)
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    (machine / "devices" / "broken").mkdir()
    assert read_nvidia() == Nvidia(num_cards=1)


def test_why_torch_has_no_gpu_is_what_it_warns_of(monkeypatch):
    import torch

    def is_available():
        warnings.warn("The NVIDIA driver on your system is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    build = read_torch()
    assert (build.cards.cuda, build.cards.cards) == ("13.0", ())
    assert "too old" in build.cards.trouble


def test_a_driver_that_makes_torch_fail_is_told(monkeypatch):
    import torch

    def is_available():
        raise RuntimeError("CUDA error: unknown")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    assert read_torch().cards.trouble == "CUDA error: unknown"
