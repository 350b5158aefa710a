"""scripts/install.sh takes the build of torch that the machine or the user wants."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
case $* in
    *"import torch"*) [ -n "$HAS" ] && echo "$HAS" || exit 1 ;;
    *) echo "$*" >> "$CALLS" ;;
esac
"""


@pytest.fixture
def install(tmp_path):
    """Run the script with a Python that writes down what it is called with; return the calls."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    calls = tmp_path / "calls"

    def install(*, has="", torch=None):
        calls.write_text("")
        environment = {"PATH": os.environ["PATH"], "HAS": has, "CALLS": str(calls)}
        if torch is not None:
            environment["TORCH"] = torch
        done = subprocess.run(
            [ROOT / "scripts" / "install.sh", tmp_path / "venv"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done, calls.read_text()

    return install


def last_of_pip(calls):
    return [line for line in calls.splitlines() if line.startswith("-m pip")][-1]


def test_a_torch_that_is_there_stays(install):
    for has, project in (("cpu", "--editable ."), ("cuda", "--editable .[cuda]")):
        done, calls = install(has=has)
        assert done.returncode == 0
        assert "force-reinstall" not in calls and "whl/cpu" not in calls
        assert project in last_of_pip(calls)


def test_a_build_for_processors_makes_room_for_one_with_cuda_that_is_asked_for(install):
    _, calls = install(has="cpu", torch="cuda")
    assert "--force-reinstall --no-deps torch" in calls
    assert ".[cuda]" in last_of_pip(calls)


@pytest.mark.parametrize("has", ["", "cuda"])
def test_a_build_for_processors_comes_from_their_index(install, has):
    _, calls = install(has=has, torch="cpu")
    assert "whl/cpu torch" in calls
    assert "[cuda]" not in calls


def test_another_wish_is_refused(install):
    done, calls = install(torch="rocm")
    assert (done.returncode, "TORCH must be cuda or cpu" in done.stderr) == (1, True)
    assert "--editable" not in calls


def test_steps_are_compiled_when_all_is_installed(install):
    done, calls = install(has="cpu")
    assert calls.index("prepare()") > calls.index("--editable")
    assert (done.returncode, done.stderr) == (0, "")


def test_steps_that_cannot_be_compiled_are_a_note(install, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text(PYTHON.replace("case $* in", 'case $* in\n    *"prepare()"*) exit 1 ;;'))
    done, _ = install(has="cpu")
    assert done.returncode == 0
    assert done.stderr.startswith("Steps could not be compiled for this processor")


def test_every_package_that_is_needed_has_one_version_within_its_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    versions = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}
    assert len(versions) == len(pins) and all(version[0].isdigit() for version in versions.values())
    needed = [Requirement(text) for text in project["dependencies"]]
    assert {need.name for need in needed} == versions.keys() - {"llvmlite"}
    assert [need for need in needed if versions[need.name] not in need.specifier] == []
