"""What commands that ask a model have in common: the question, signals, how loading is told."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

from localpaged.chat.events import ModelLoading
from localpaged.errors import ConfigError

MAX_STDIN_BYTES = 1 << 24
"""Four times what fits the longest contexts there are; a pipe may be endless."""


class Interrupt:
    """The first signal ends the answer and keeps its text, a second one the program at once.

    Main thread; signals that are ignored (`nohup`, a shell's background jobs) stay ignored.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self._stop: Callable[[], None] | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        for number in self._SIGNALS:
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN:
                self._handlers[number] = handler
                signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def call(self, stop: Callable[[], None]) -> None:
        """Call `stop` at the first signal, or now if that was before."""
        self._stop = stop
        if self.exit_code is not None:
            stop()

    def _receive(self, number: int, frame: object) -> None:
        for each in self._handlers:
            signal.signal(each, signal.SIG_DFL)
        self.exit_code = 128 + number
        if self._stop is not None:
            self._stop()


def question_text(question: tuple[str, ...], *, example: str) -> str:
    """Return the words of a command and what comes through stdin behind them.

    Raises ConfigError, with an `example`, when both are empty.
    """
    parts = [" ".join(question), _stdin_text()]
    text = "\n\n".join(part for part in parts if part.strip())
    if not text:
        raise ConfigError("There is no question.", hint=f"Try: {example}")
    return text


def _stdin_text() -> str:
    if sys.stdin.isatty():
        return ""
    try:
        raw = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"stdin cannot be read: {error.strerror}.", hint="Give it a file, a pipe or /dev/null."
        ) from error
    if len(raw) > MAX_STDIN_BYTES:
        raise ConfigError(
            f"More than {MAX_STDIN_BYTES:,} bytes came through stdin; no context is that long.",
            hint="Send less of it.",
        )
    # Bytes that are no UTF-8 become replacement marks instead of an error in mid-pipe.
    return raw.decode("utf-8", "replace").rstrip("\r\n")


def loading_line(loading: ModelLoading) -> str:
    """Return how far a model is, on one line."""
    event = loading.event
    share = f" {event.done / event.total:.0%}" if event.total else ""
    name = f"{event.model_name}: " if event.model_name else ""
    return f"{name}{event.stage}{share} …"
