"""What stats are drawn with as text: characters, bars, curves, and lines that fit a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from localpaged.stats.schema import Series
from localpaged.tui.figures import grouped

MIN_BAR_CELLS = 8
CURVE_CELLS = 48
NAME_CELLS = 10
SCALE_CELLS = 20
"""What is behind a curve."""
UNBOUNDED = 10_000


@dataclass(frozen=True, slots=True)
class Look:
    """The characters that a text is drawn with, and how wide it may be."""

    dot: str = "·"
    active: str = "█"
    pinned: str = "▓"
    cached: str = "▒"
    free: str = "·"
    steps: str = "▁▂▃▄▅▆▇█"
    none: str = "–"
    columns: int = UNBOUNDED

    @classmethod
    def ascii(cls, *, columns: int = UNBOUNDED) -> Look:
        """The same in ASCII alone."""
        return cls("|", "#", "P", "=", ".", "_.-=+*%#", "-", columns)

    @classmethod
    def of_stdout(cls, *, is_ascii: bool) -> Look:
        """What fits stdout: a terminal has so many columns, a pipe takes everything."""
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED
        return cls.ascii(columns=columns) if is_ascii else cls(columns=columns)

    def join(self, *parts: str) -> str:
        """Put parts that are not empty on one line."""
        return f" {self.dot} ".join(part for part in parts if part)

    def fit(self, lines: Sequence[str]) -> str:
        """Return lines as text, those that are too long broken between their parts."""
        return "\n".join(self._broken(line) for line in lines)

    def _broken(self, line: str) -> str:
        if cell_len(line) <= self.columns:
            return line
        first, *parts = line.split(f" {self.dot} ")
        rows = [first]
        for part in parts:
            longer = self.join(rows[-1], part)
            if cell_len(longer) <= self.columns:
                rows[-1] = longer
            else:
                rows.append(" " * NAME_CELLS + part)
        return "\n".join(rows)


def duration(seconds: float) -> str:
    """83.4 -> 00:01:23."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest:02}"


def counted(count: int, what: str, several: str = "") -> str:
    """1, chat -> 1 chat; 2, chat -> 2 chats."""
    return f"{grouped(count)} {what if count == 1 else several or what + 's'}"


def bar(parts: Sequence[tuple[str, int]], whole: int, cells: int) -> str:
    """Return characters in proportion to counts; what is there has a cell at least."""
    widths = [max(round(cells * count / (whole or 1)), bool(count)) for _, count in parts]
    while sum(widths) > cells:
        widths[widths.index(max(widths))] -= 1
    return "".join(character * width for (character, _), width in zip(parts, widths, strict=True))


def curve(series: Series, look: Look) -> str:
    """Return the latest points as steps of their largest."""
    points = series[-cells_of(CURVE_CELLS, look.columns - NAME_CELLS - SCALE_CELLS) :]
    largest = max((point for point in points if point is not None), default=0.0) or 1.0
    top = len(look.steps) - 1
    return "".join(
        " " if point is None else look.steps[round(top * point / largest)] for point in points
    )


def cells_of(wanted: int, room: int) -> int:
    """Return how many cells something gets that may become narrow."""
    return max(MIN_BAR_CELLS, min(wanted, room))
