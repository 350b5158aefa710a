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
