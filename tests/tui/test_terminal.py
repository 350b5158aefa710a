"""The UI alone writes on the terminal; afterwards everything is as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 20.0
TAKEN = """
import os, sys
from localpaged import paths
from localpaged.tui.terminal import taken
print("before")
try:
    with taken(paths.log_file()):
        os.write(1, b"native out\\n")
        os.write(2, b"native err\\n")
        print("python out")
        print("python err", file=sys.stderr)
        with taken(paths.log_file()):
            pass
        sys.__stderr__.write("screen\\n")
        sys.__stderr__.flush()
        if "fail" in sys.argv:
            raise SystemExit("failed")
finally:
    print("after", flush=True)
    os.write(2, b"stderr again\\n")
"""
NOISY_CHAT = """
import os, sys, threading, time
from testkit import demo_chat
def shout():
    while not os.readlink("/proc/self/fd/1").endswith("localpaged.log"):
        time.sleep(0.01)
    while os.readlink("/proc/self/fd/1").endswith("localpaged.log"):
        os.write(1, b"NOISE-1\\n"); os.write(2, b"NOISE-2\\n")
        time.sleep(0.05)
shouting = threading.Thread(target=shout, daemon=True)
shouting.start()
code = demo_chat.main()
shouting.join()  # a last shout would part the next words
print("EXIT", code, flush=True)
os._exit(code)
"""
CRASHING_CHAT = """
import sys
from localpaged import paths
from localpaged.tui.app import LocalPagedApp
from localpaged.tui.terminal import taken
from testkit import demo_chat
LocalPagedApp.beat = lambda self: 1 / 0
with taken(paths.log_file()):
    code = demo_chat.main()
sys.exit(code)
"""

SIZED_CHAT = """
from localpaged.errors import LocalPagedError
from localpaged.tui.app import LocalPagedApp
from localpaged.tui.terminal import run_chat
sizes = []
def opening(subscriber):
    raise LocalPagedError("nothing to open")
begin = LocalPagedApp._begin
LocalPagedApp._begin = lambda self: (sizes.append(self.size), begin(self))
try:
    run_chat(opening)
except LocalPagedError:
    print("SIZE", *sizes[0])
"""


def environment() -> dict[str, str]:
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}"
    return {**os.environ, "PYTHONPATH": path, "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def run_python(code: str, *arguments: str, stdin: int | None = subprocess.DEVNULL):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdin=stdin,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("ending", ["well", "fail"])
def test_descriptors_lead_to_the_log_and_back(home, ending):
    done = run_python(TAKEN, ending)
    log = home / "state" / "localpaged.log"
    assert done.stdout == "before\nscreen\nafter\n"
    assert done.stderr.startswith("stderr again\n")
    assert set(log.read_text().split("\n")) >= {
        "native out", "native err", "python out", "python err",
    }  # fmt: skip
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_without_a_terminal_it_says_so_and_points_to_ask():
    done = run_python("from localpaged.tui.terminal import run_chat; exit(run_chat(None))")
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr
    assert "localpaged ask" in done.stderr
    assert done.stdout == ""


class Terminal:
    """A program in a pseudo terminal; `output` is all it wrote."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self.output = b""
        self._fd = fd

    def send(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def until(self, predicate: Callable[[bytes], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not predicate(self.output):
            assert time.monotonic() < deadline, self.output[-2_000:]
            ready, _, _ = select.select([self._fd], [], [], 0.05)
            try:
                piece = os.read(self._fd, 65_536) if ready else b""
            except OSError:
                # the other side is closed
                piece = b""
            self.output += piece
            if not piece and self.process.poll() is not None:
                assert predicate(self.output), self.output[-2_000:]
                return

    def wait(self) -> int:
        self.until(lambda output: self.process.poll() is not None)
        return self.process.wait(TIMEOUT_S)


@contextmanager
def in_terminal(code: str, *arguments: str, **variables: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment(), **variables},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(TIMEOUT_S)
        os.close(ours)


def test_noise_of_native_code_does_not_reach_the_screen_and_quitting_restores_it(home):
    with in_terminal(NOISY_CHAT) as terminal:
        terminal.until(lambda output: b"Ask anything" in output)
        terminal.send(b"hello haiku")
        terminal.until(lambda output: b"hello" in output)
        terminal.send(b"\r")
        terminal.until(lambda output: b"TTFT" in output)
        terminal.until(lambda output: b"NOISE-2" in (home / "state/localpaged.log").read_bytes())
        terminal.send(b"\x11")
        assert terminal.wait() == 0
        screen, _, rest = terminal.output.partition(b"\x1b[?1049l")
        assert b"NOISE" not in screen
        assert b"EXIT 0" in rest


def test_a_crash_of_the_ui_restores_the_screen_and_tells_where_the_details_are(home):
    with in_terminal(CRASHING_CHAT) as terminal:
        assert terminal.wait() != 0
        _, restored, rest = terminal.output.partition(b"\x1b[?1049l")
        assert restored
        assert b"localpaged.log" in rest
        assert b"ZeroDivisionError" in rest
        assert "ZeroDivisionError" in (home / "state/localpaged.log").read_text()


def test_the_ui_imports_no_torch_no_database_no_models():
    done = run_python("import sys, localpaged.tui.app; print(*sys.modules)")
    loaded = set(done.stdout.split())
    absent = {"torch", "transformers", "triton", "numpy", "localpaged_kernels", "sqlite_utils"}
    assert loaded & absent == set(), done.stderr


def test_the_package_and_the_terminal_import_no_textual():
    done = run_python("import sys, localpaged.tui, localpaged.tui.terminal; print(*sys.modules)")
    assert not {"textual", "rich", "markdown_it"} & set(done.stdout.split()), done.stderr


def test_a_terminal_that_cannot_place_its_cursor_is_refused():
    code = "from localpaged.tui.terminal import run_chat; exit(run_chat(None))"
    with in_terminal(code, TERM="dumb") as terminal:
        assert terminal.wait() == 2
        assert b"TERM is dumb" in terminal.output
        assert b"localpaged ask" in terminal.output


def test_the_size_is_that_of_the_window_whatever_was_exported(home):
    with in_terminal(SIZED_CHAT, COLUMNS="200", LINES="60") as terminal:
        assert terminal.wait() == 0
        assert b"SIZE 80 24" in terminal.output
