"""Standard streams as commands need them: there, and telling when it is stdout that fails."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from localpaged.errors import ConfigError


class OutputLost(Exception):
    """stdout takes nothing more, for the operating system's `reason`.

    It is no OSError: nobody on the way takes it for an error of some other file.
    """

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Output(io.TextIOWrapper):
    """stdout; what its encoding lacks is written as an escape."""

    def write(self, text: str, /) -> int:
        """Write `text`. Raises OutputLost."""
        try:
            return super().write(text)
        except OSError as error:
            raise OutputLost(error) from error

    def flush(self) -> None:
        """Pass everything on. Raises OutputLost."""
        try:
            super().flush()
        except OSError as error:
            raise OutputLost(error) from error


def fill_streams() -> None:
    """Give closed standard streams a place, and let all wait. Raises ConfigError for stdout."""
    # A file that is opened later must not get the number of a standard stream.
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stdout is None:
        raise ConfigError(
            "stdout is closed: there is nowhere to write.", hint="Give it a file or /dev/null."
        )
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Who started us may not want to wait on its side; then ours would fail in mid-text.
        with suppress(OSError):
            os.set_blocking(stream.fileno(), True)


@contextmanager
def watched_output() -> Iterator[None]:
    """Let writing to stdout raise OutputLost instead of OSError while the block runs."""
    plain = sys.stdout
    if not hasattr(plain, "buffer"):
        yield
        return
    output = _Output(
        plain.buffer,
        encoding=plain.encoding,
        errors="backslashreplace",
        line_buffering=plain.isatty(),
        write_through=True,
    )
    sys.stdout = output
    try:
        yield
        output.flush()
    except OutputLost:
        # What could not be written is still buffered; Python would fail on it once more at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, plain.fileno())
        os.close(nowhere)
        raise
    finally:
        sys.stdout = plain
        output.detach()
