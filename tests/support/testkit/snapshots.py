"""Pictures of screens as text files: taking them, and comparing them with those that are kept.

What a picture shows and a run does not determine is made still in one place, `still`: clocks, the
time zone, ids of chats and of made-up tokens; messages in the corner are left out. What remains,
`normal` writes alike.
"""

from __future__ import annotations

import difflib
import itertools
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localpaged.tui.glyphs import UNICODE
from testkit import fake_model
from testkit.screens import LARGE, SMALL

if TYPE_CHECKING:
    from testkit.screens import Stage

ACCEPT_VARIABLE = "LOCALPAGED_ACCEPT_SNAPSHOTS"
BOTH = (SMALL, LARGE)
NOON_S = 1_710_504_000.0  # 15 March 2024, 12:00 UTC
# reasoning is timed by the service, with the real clock
_THOUGHT = re.compile(r"(thought for) \d+\.\d s")
# a frame is as old as the app is busy
_SPINNER = str.maketrans(dict.fromkeys(UNICODE.spinner, UNICODE.spinner[0]))


class Clock:
    """Wall clock and monotonic clock in one; moves only when a test says so."""

    def __init__(self) -> None:
        self.now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        self.now_s += seconds


@contextmanager
def still() -> Iterator[Clock]:
    """Make everything that a picture may show the same in every run; the clock is the caller's."""
    clock, numbers = Clock(), itertools.count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(time, "time", clock)
        for module in ("screens.chat.time", "screens.history.time"):
            patch.setattr(f"localpaged.tui.{module}", clock)
        for module in ("app", "screens.chat", "screens.compare"):
            patch.setattr(f"localpaged.tui.{module}.monotonic", clock)
        # messages in the corner go away by the real clock
        patch.setattr("localpaged.tui.app.LocalPagedApp.notify", lambda *args, **named: None)
        patch.setattr("localpaged.store.store.ULID", lambda: f"{next(numbers):026}")
        patch.setattr(fake_model, "_PIECE_IDS", {"": 0})
        patch.setattr(fake_model, "_PIECES", {0: ""})
        time.tzset()
        yield clock
    time.tzset()


def normal(text: str) -> str:
    """A screen without blanks at the ends of its lines and without what is really measured."""
    text = _THOUGHT.sub(r"\1 0.0 s", text).translate(_SPINNER)
    return "\n".join(line.rstrip() for line in text.split("\n")) + "\n"


class Album:
    """The pictures of a test beside those in a folder. UI thread only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_accepting = os.environ.get(ACCEPT_VARIABLE) == "1"
        self._faults: list[str] = []

    async def take(
        self, shown: Stage, name: str, *, sizes: tuple[tuple[int, int], ...] = BOTH
    ) -> None:
        """Show what is shown in every size, and compare each picture with its file.

        The size that the terminal has comes first.
        """
        for width, height in sorted(sizes, key=lambda size: size != tuple(shown.app.size)):
            await shown.resize(width, height)
            for _ in range(2):
                await shown.beat()
            self.compare(f"{name}-{width}x{height}", normal(shown.text))

    def compare(self, name: str, text: str) -> None:
        """Compare a text with its file, or write the file where that was asked for."""
        path = self._folder / f"{name}.txt"
        if self._is_accepting:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            self._faults.append(f"There is no snapshot {path.name}; the screen:\n{text}")
        elif (kept := path.read_text(encoding="utf-8")) != text:
            lines = difflib.unified_diff(
                kept.splitlines(), text.splitlines(), f"{path.name}", "this run", n=2, lineterm=""
            )
            self._faults.append("\n".join(lines))

    def check(self) -> None:
        """Fail with every difference there was, and tell how they are accepted."""
        if self._faults:
            how = f"If all is as it should be, run the test again with {ACCEPT_VARIABLE}=1."
            raise AssertionError("\n\n".join([*self._faults, how]))
