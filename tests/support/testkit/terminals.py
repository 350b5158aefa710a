"""A program in a pseudo terminal, and what a person would see on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyte

TIMEOUT_S = 60.0
# The emulator prints what it does not know of these instead of ignoring it.
_UNKNOWN_TO_EMULATOR = re.compile(rb"\x1b\[[<=>][0-9;:]*[a-zA-Z]|\x1b\[\?[0-9;]*\$p")
_UNFINISHED = re.compile(rb"\x1b(\[[0-9;:?<=>$]*)?\Z")


class Terminal:
    """One program and its screen. `output` is all it wrote."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int, *, columns: int, rows: int):
        self.process = process
        self.output = b""
        self.fd = fd
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._unfinished = b""

    @property
    def text(self) -> str:
        """The rows of the screen."""
        return "\n".join(row.rstrip() for row in self._screen.display)

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self.fd, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._screen.resize(rows, columns)
        _set_size(self.fd, columns, rows)

    def until(self, is_there: Callable[[], bool]) -> None:
        """Read what the program writes until a condition holds."""
        deadline = time.monotonic() + TIMEOUT_S
        while not is_there():
            has_ended = self.process.poll() is not None
            if not self._read() and has_ended:
                assert is_there(), f"it has ended; the screen:\n{self.text}"
                return
            assert time.monotonic() < deadline, f"never came true; the screen:\n{self.text}"

    def until_shown(self, *texts: str) -> None:
        """Read until all the texts are on the screen."""
        self.until(lambda: all(text in self.text for text in texts))

    def wait(self) -> int:
        """Read until the program has ended; return its exit code."""
        self.until(lambda: self.process.poll() is not None)
        while self._read():
            pass
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.fd], [], [], 0.05)
        try:
            written = os.read(self.fd, 65_536) if ready else b""
        except OSError:
            return False  # the program has closed its side
        self.output += written
        written = self._unfinished + written
        unfinished = _UNFINISHED.search(written)
        self._unfinished = unfinished[0] if unfinished else b""
        shown = written.removesuffix(self._unfinished)
        self._stream.feed(_UNKNOWN_TO_EMULATOR.sub(b"", shown))
        return bool(written)


@contextmanager
def in_terminal(
    command: Mapping[str, Any],
    *,
    columns: int = 100,
    rows: int = 30,
    env: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Run a program, as Popen wants it, in a terminal of its own; killed at the end.

    `env` goes before what tells of a terminal with all colours.
    """
    ours, theirs = pty.openpty()
    _set_size(theirs, columns, rows)
    colours = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    variables = {**command["env"], **colours, **(env or {})}
    process = subprocess.Popen(
        command["args"],
        env=variables,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # So that keys and a new size of the window send it signals.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours, columns=columns, rows=rows)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(TIMEOUT_S)
        os.close(ours)


def _set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
