"""Threads that wait leave the processor to others, unless the user says how they wait."""

import os
import subprocess
import sys

import pytest

SHOW = "import os; print(os.environ.get('GOMP_SPINCOUNT'))"
START = "from localpaged.thread_waiting import wait_briefly; wait_briefly(); "


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "10000"),
        ({"GOMP_SPINCOUNT": "5"}, "5"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "None"),
    ],
)
def test_the_users_way_of_waiting_wins(given, expected):
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", START + SHOW],
        env=kept | given,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == expected


def test_torch_is_told_before_it_is_loaded():
    code = """
import sys
from localpaged import engine_factory
from localpaged.config import Settings
engine_factory.wait_briefly = lambda: print("torch" in sys.modules)
engine_factory.load_core(lambda: sys.exit(0), Settings(model="x"), lambda event: None)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"
