"""The script as a whole, its checks played: what it prints, writes and ends with."""

import json

import pytest

import gpu_check
from gpu_check_parts import check_speed, check_traffic
from gpu_check_parts.bench import Bench
from gpu_check_parts.checks import CHECKS, MANY, REQUESTS, Conditions
from gpu_check_parts.entries import Bar, Fault, Figure, Machine, Skip
from gpu_check_parts.ours import Steps
from gpu_check_parts.running import result_of

CARD = Machine({"card": "NVIDIA GeForce RTX 4090", "cuda": "13.0", "is_rehearsal": False})


@pytest.fixture
def played(monkeypatch, tmp_path):
    """Return what checks tell, by name; results go to `tmp_path`."""
    entries = {"machine": [CARD]}

    def run_apart(check, *, budget_s, is_rehearsal):
        told = entries.get(check.name, [])
        return result_of(check, list(told), took_s=1.0, budget_s=budget_s)

    monkeypatch.setattr(gpu_check, "run_apart", run_apart)
    monkeypatch.setattr(gpu_check, "RESULTS", tmp_path)
    monkeypatch.setattr(
        gpu_check.machine_facts, "clocks", lambda: {"clocks.sm": "2520 MHz", "power.draw": "9 W"}
    )
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "0")
    return entries


def test_a_run_is_kept_under_the_names_of_card_and_commit(played, tmp_path, capsys):
    assert gpu_check.main([]) == 0
    (path,) = tmp_path.glob("*.json")
    report = json.loads(path.read_text())
    assert report["machine"]["card"] == "NVIDIA GeForce RTX 4090"
    assert report["is_whole"] is True
    assert path.name == f"gpu-nvidia-geforce-rtx-4090-{report['machine']['commit'][:7]}.json"
    assert [check["name"] for check in report["checks"]] == ["machine", *(c.name for c in CHECKS)]
    assert report["checks"][1]["clocks"]["after"]["clocks.sm"] == "2520 MHz"
    out = capsys.readouterr().out
    assert out.startswith("measured on the card that is named here\nNVIDIA GeForce RTX 4090, ")
    assert "sm 2520 MHz" in out
    assert f"written to {path} and {path.stem}.md" in out
    table = path.with_suffix(".md").read_text()
    assert table.startswith("measured on the card")
    assert out.startswith(table)


@pytest.mark.parametrize(
    ("told", "status", "line"),
    [
        ([Fault("it", "broke")], 1, "- Kernels' times: it: broke"),
        ([Bar("a bar", 0.7, 0.8, "share", is_met=False)], 3, "- bar missed: a bar: 0.7 share"),
        ([Bar("a bar", 0.9, 0.8, "share", is_met=True)], 0, ""),
        ([Skip("it", "not there")], 0, "- Kernels' times: it: not there"),
    ],
    ids=["fault", "missed bar", "met bar", "left out"],
)
def test_the_end_says_what_is_not_as_it_must_be(played, capsys, told, status, line):
    played["times"] = told
    assert gpu_check.main([]) == status
    out = capsys.readouterr().out
    assert line in out
    assert ("Not as it must be" in out) == (status != 0)


def test_a_card_that_cannot_be_used_ends_it_before_the_first_check(played, capsys):
    played["machine"] = [CARD, Fault("GPU", "it is too old")]
    assert gpu_check.main([]) == 4
    assert "it is too old" in capsys.readouterr().out


def test_what_was_found_out_is_kept_when_the_script_is_ended(played, monkeypatch, tmp_path):
    played["kernels"] = [Fault("it", "broke")]
    checks_run = []

    def run_apart(check, *, budget_s, is_rehearsal):
        checks_run.append(check.name)
        if check.name == "speed":
            raise KeyboardInterrupt
        return result_of(check, played.get(check.name, []), took_s=1.0, budget_s=budget_s)

    monkeypatch.setattr(gpu_check, "run_apart", run_apart)
    with pytest.raises(KeyboardInterrupt):
        gpu_check.main([])
    (path,) = tmp_path.glob("*.json")
    report = json.loads(path.read_text())
    assert report["is_whole"] is False
    assert [check["name"] for check in report["checks"]] == checks_run[:-1]
    assert report["checks"][1]["faults"] == [{"what": "it", "why": "broke"}]
    assert "broke" in path.with_suffix(".md").read_text()
    assert not list(tmp_path.glob("*.part"))


def test_a_copy_without_its_history_is_told_its_commit(played, monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_check.machine_facts, "software", lambda: {"commit": None})
    assert gpu_check.main(["--commit", "abcdef0123"]) == 0
    (path,) = tmp_path.glob("*.json")
    assert path.name == "gpu-nvidia-geforce-rtx-4090-abcdef0.json"
    assert json.loads(path.read_text())["machine"]["commit"] == "abcdef0123"


class PlayedEngine:
    note = ""

    def __init__(self, *_, **__):
        pass

    def decode_steps(self, *_, **__):
        return Steps((0.01, 0.02, 0.03), (0.001,) * 3)

    def prompt(self, num_tokens):
        return (1,) * num_tokens

    def answer(self, prompts, num_tokens):
        return [], []


def broken(*_, **__):
    raise ImportError("not on this machine\nat all")


@pytest.mark.parametrize(("module", "bar"), [(check_speed, MANY), (check_traffic, REQUESTS)])
def test_a_fault_of_theirs_is_left_out_with_what_they_said(monkeypatch, module, bar):
    monkeypatch.setattr(module, "Ours", PlayedEngine)
    monkeypatch.setattr(module, "Theirs", broken)
    told = list(module.run(Bench(Conditions(is_rehearsal=True, deadline_s=0.0))))
    assert any(isinstance(entry, Figure) and "localpaged" in entry.name for entry in told)
    reasons = [entry.why for entry in told if isinstance(entry, Skip)]
    assert any("ImportError: not on this machine" in why and "at all" not in why for why in reasons)
    assert not any(isinstance(entry, Bar) and entry.name == bar for entry in told)
