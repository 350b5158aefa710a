"""What is compiled for a processor is kept, trusted only as far as it works, and never required."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.decoders import needs_eight_bit

pytest.importorskip("numba")

pytestmark = needs_eight_bit

PREPARE = """
from localpaged_kernels.cpu_step.candidates import likeliest
from localpaged_kernels.cpu_step.compiled import kept_in
from localpaged_kernels.cpu_step.threads import call_likeliest, prepare
prepare(call_likeliest)
print(kept_in(), sum(likeliest.stats.cache_hits.values()))
"""


LOOK = """
from localpaged_kernels.cpu_step.compiled import is_kept, kept_in
print(kept_in(), int(is_kept(["likeliest"])))
"""


def run(home, code=PREPARE, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folder, hits = done.stdout.split()
    return Path(folder), int(hits)


def test_it_is_compiled_once_and_again_when_what_was_kept_is_damaged(tmp_path):
    folder, is_kept = run(tmp_path, LOOK)
    assert not is_kept and not folder.exists()
    assert run(tmp_path) == (folder, 0)
    assert folder.parents[1].stat().st_mode & 0o777 == 0o700, "the user's own"
    assert run(tmp_path) == (folder, 1)
    assert run(tmp_path, LOOK) == (folder, 1)
    another = {"NUMBA_CPU_NAME": "alderlake", "NUMBA_CPU_FEATURES": "+avx2,+avxvnni"}
    assert run(tmp_path, LOOK, **another) == (folder, 0)
    kept = [path for path in folder.rglob("*") if path.is_file()]
    for path in kept:
        path.write_bytes(path.read_bytes()[:20])
    assert kept
    assert run(tmp_path) == (folder, 0)
    assert run(tmp_path) == (folder, 1)


def test_all_that_is_compiled_is_known():
    from localpaged_kernels.cpu_step import compiled

    sources = Path(compiled.__file__).parent.glob("*.py")
    found = [re.findall(r"^@compiled\ndef (\w+)", path.read_text(), re.M) for path in sources]
    assert sorted(name for names in found for name in names) == sorted(compiled.ALL)


def test_a_folder_that_cannot_be_made_costs_time_alone(tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert run(tmp_path)[1] == 0


def test_a_processor_with_eight_products_at_once_gets_the_same_sums(tmp_path):
    features = "-avx512f,-avx512vl,-avx512bw,-avx512dq,-avx512vnni,+avx2,+fma,+f16c,+avxvnni,+bmi2"
    code = """
import numpy as np
from numba import njit
from localpaged_kernels.cpu_step.llvm_code import is_wide
from localpaged_kernels.cpu_step.vectors import make_dot
assert not is_wide()
dot = make_dot(3, 2, 2)
@njit
def multiply(*addresses):
    dot(addresses[0], 16 * 64, addresses[1], 64, 16, *addresses[2:], 128)
random = np.random.default_rng(1)
weights = random.integers(0, 256, (2, 16, 16, 4), dtype=np.uint8)
room = np.zeros(weights.size + 64, np.uint8)
start = -room.ctypes.data % 64
packed = room[start : start + weights.size]
packed[:] = weights.ravel()
x = random.integers(-127, 128, (3, 64), dtype=np.int8)
ones, out = np.ones(32, np.float32), np.zeros((3, 32), np.float32)
sums = x.sum(axis=1, dtype=np.int32)
biases = np.zeros(32, np.float32)
multiply(*(a.ctypes.data for a in (packed, x, ones, sums, ones, biases, out)))
matrix = weights.transpose(0, 2, 1, 3).reshape(32, 64).astype(np.int64) - 128
assert (out == x.astype(np.int64) @ matrix.T).all()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CPU_NAME": "alderlake", "NUMBA_CPU_FEATURES": features},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
