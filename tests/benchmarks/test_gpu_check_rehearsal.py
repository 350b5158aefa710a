"""The script that proves the engine on a GPU runs here, tiny and interpreted, so it cannot rot."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_check_parts.checks import CHECKS, MACHINE, Conditions
from gpu_check_parts.entries import Bar, Case, Figure, Skip
from gpu_check_parts.running import run_here
from gpu_check_parts.running_all import faults_of

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_check.py"
SHOWN = {"kernels": Case, "engine": Case}
"""What a check must have told of to have done anything; figures, where nothing is said."""


@pytest.mark.parametrize("check", [MACHINE, *CHECKS], ids=lambda check: check.name)
def test_every_check_runs_rehearsed_and_judges_no_bar(check):
    result = run_here(check, Conditions(is_rehearsal=True, deadline_s=time.monotonic() + 100))
    assert faults_of([result]) == []
    assert result.outcome == "passed"
    assert any(isinstance(entry, SHOWN.get(check.name, Figure)) for entry in result.entries)
    bars = {entry.name: entry for entry in result.entries if isinstance(entry, Bar)}
    assert all(bar.is_met is None for bar in bars.values())
    left_out = {entry.what: entry.why for entry in result.entries if isinstance(entry, Skip)}
    assert set(check.bars) <= {*bars, *left_out}
    assert "the check ended before it" not in left_out.values()


def script(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_the_script_rehearses_and_keeps_its_json_only_where_it_is_told_to(tmp_path):
    out = tmp_path / "some" / "rehearsal.json"
    before = set((SCRIPT.parent / "results").iterdir())
    done = script("--rehearse", "--only", "times", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("REHEARSAL")
    report = json.loads(out.read_text())
    assert (report["kind"], report["exit_status"]) == ("rehearsal", 0)
    assert {"torch", "triton", "transformers", "commit", "driver", "card"} <= set(report["machine"])
    outcomes = {check["name"]: check["outcome"] for check in report["checks"]}
    assert outcomes["times"] == "passed"
    assert set(outcomes.values()) <= {"passed", "skipped"}
    assert set((SCRIPT.parent / "results").iterdir()) == before


@pytest.mark.skipif("TRITON_INTERPRET" in os.environ and os.environ["TRITON_INTERPRET"] == "0",
                    reason="there is a GPU")  # fmt: skip
def test_without_a_gpu_nothing_is_measured_and_the_exit_status_tells(tmp_path):
    done = script("--out", str(tmp_path / "out.json"))
    assert done.returncode == 4, done.stderr
    assert "sees no CUDA device" in done.stdout


def test_an_unknown_check_is_wrong_usage():
    assert script("--only", "everything").returncode == 2


def test_layouts_are_tried_beside_the_rules_own_and_agree(tmp_path):
    out = tmp_path / "layouts.json"
    done = subprocess.run(
        [sys.executable, SCRIPT.with_name("gpu_layouts.py"), "--rehearse", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("REHEARSAL")
    works = json.loads(out.read_text())["works"]
    assert len(works) == 7
    for lines in works.values():
        assert [line["is_rule"] for line in lines].count(True) == 1
        assert len(lines) > 2
        assert all(line["error"] <= 1 for line in lines)
