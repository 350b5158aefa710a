"""StatsReader: asks a running program for its stats. Standard library only: opens in no time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from localpaged.errors import EngineGone, StatsError
from localpaged.stats import sockets
from localpaged.stats.protocol import (
    DETAILS,
    MAX_ANSWER_BYTES,
    Greeting,
    line_of,
    parse,
    raise_failure,
    read_greeting,
    request,
)
from localpaged.stats.schema import Snapshot, from_json

TIMEOUT_S = 5.0
_READ_BYTES = 1 << 16


class StatsReader:
    """A connection to one running program. One thread at a time; a context manager.

    After an error the connection is of no use any more.
    """

    def __init__(self, path: Path, *, timeout_s: float = TIMEOUT_S) -> None:
        """Connect and read who answers.

        Raises EngineGone, and StatsError for one that does not answer or is of another version.
        """
        self.path = path
        self._timeout_s = timeout_s
        self._received = b""
        try:
            self._connection = sockets.connect(path, timeout_s=timeout_s)
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise EngineGone() from error
        except OSError as error:
            raise _silent(path, error) from error
        try:
            self.greeting: Greeting = read_greeting(self._read())
        except BaseException:
            self.close()
            raise

    def snapshot(self, details: frozenset[str] = DETAILS) -> Snapshot:
        """Ask for a snapshot. Raises EngineGone when the program ended, else StatsError."""
        try:
            self._connection.settimeout(self._timeout_s)
            self._connection.sendall(line_of(request(details)))
        except OSError as error:
            raise _failed(self.path, error) from error
        answer = self._read()
        raise_failure(answer)
        return from_json(answer)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._connection.close()

    def __enter__(self) -> StatsReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _receive(self, within_s: float) -> bytes:
        if within_s <= 0:
            raise TimeoutError("timed out")
        self._connection.settimeout(within_s)
        return self._connection.recv(_READ_BYTES)

    def _read(self) -> object:
        parts = [self._received]
        # for the whole answer: whoever sends byte after byte would hold us for ever
        by_s = time.monotonic() + self._timeout_s
        while b"\n" not in parts[-1]:
            if sum(map(len, parts)) > MAX_ANSWER_BYTES:
                raise StatsError(f"The answer at {self.path} is too long to be stats.")
            try:
                part = self._receive(by_s - time.monotonic())
            except OSError as error:
                raise _failed(self.path, error) from error
            if not part:
                raise EngineGone()
            parts.append(part)
        line, _, self._received = b"".join(parts).partition(b"\n")
        return parse(line)


def open_engines(
    pid: int | None = None, *, timeout_s: float = TIMEOUT_S
) -> tuple[Sequence[StatsReader], Sequence[StatsError]]:
    """Connect to every running program, or one; return those that answer, and why others do not.

    What dead programs left is removed. Raises StatsError when the folder cannot be looked into.
    """
    readers: list[StatsReader] = []
    failures: list[StatsError] = []
    for path in engine_sockets(pid):
        try:
            readers.append(StatsReader(path, timeout_s=timeout_s))
        except EngineGone:
            continue
        except StatsError as error:
            failures.append(_told_with(path, error))
    readers.sort(key=lambda reader: reader.greeting.started_at)
    return readers, failures


def engine_sockets(pid: int | None = None) -> Sequence[Path]:
    """Return where running programs, or one of them, listen. Raises StatsError."""
    try:
        return sockets.living(pid)
    except OSError as error:
        raise StatsError(f"Running programs cannot be looked for: {error}.") from error


def _told_with(path: Path, error: StatsError) -> StatsError:
    """Name the socket: of several that cannot be read each is to be found."""
    if str(path) in error.message:
        return error
    return StatsError(f"{path}: {error.message}", hint=error.hint)


def _silent(path: Path, error: OSError) -> StatsError:
    return StatsError(
        f"localpaged listens at {path} and does not answer: {error}.",
        hint="It may be stopped (fg goes on with it), or busy.",
    )


def _failed(path: Path, error: OSError) -> StatsError:
    if isinstance(error, (BrokenPipeError, ConnectionResetError)):
        return EngineGone()
    return _silent(path, error)
