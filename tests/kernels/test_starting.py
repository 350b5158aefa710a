"""A kernel that was compiled before is started as Triton itself would start it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "testkit.driverless"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={
            **os.environ,
            "TRITON_INTERPRET": "0",
            "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
            "PYTHONPATH": str(ROOT / "tests" / "support"),
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


def test_a_second_start_hands_over_what_tritons_own_does(told):
    assert told["started otherwise"] == []


def test_what_is_compiled_for_is_told_apart_as_triton_tells_it_apart(told):
    launches, builds = map(int, told["looked at"])
    assert launches > builds > 10
    assert told["keys"] == []
