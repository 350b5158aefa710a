"""Ctrl+C before the program is there at all: it ends, and says nothing."""

from __future__ import annotations

import signal
import subprocess
import sys

START = """
import os, signal, sys
class Import:
    def find_spec(self, name, path=None, target=None):
        if name == "localpaged.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Import())
from localpaged.start import main
sys.argv = ["localpaged", "--version"]
main()
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_an_interrupt_while_modules_are_imported_ends_without_a_word():
    done = run(START)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_interrupt_that_is_ignored_stays_ignored():
    done = run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + START)
    assert (done.returncode, done.stderr) == (0, "")
    assert "version" in done.stdout


COLLECTING = """
import atexit, gc, sys
seen = []
class Import:
    def find_spec(self, name, path=None, target=None):
        if name in ("localpaged.cli.main", "localpaged.kv_files.folder"):
            seen.append(gc.isenabled())
sys.meta_path.insert(0, Import())
atexit.register(lambda: print(seen))
from localpaged.start import main
sys.argv = ["localpaged", "paths"]
main()
"""


def test_cycles_are_collected_from_the_command_on():
    assert run(COLLECTING).stdout.splitlines()[-1] == "[False, True]"
