"""Rows of text in colours that themes have no role for: classes of blocks, and their shades."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from localpaged.plain_text import visible
from localpaged.tui.markdown.line import Role, Run
from localpaged.tui.shortened import shortened


class Shade(NamedTuple):
    """A colour of the block map's palette, `part` of the way from the ground to it."""

    paint: str
    part: float = 1.0


class Ink(NamedTuple):
    """A stretch of text in one colour, on the usual ground or on one of its own.

    `marks` are those of a Run.
    """

    text: str
    paint: Role | Shade = Role.TEXT
    marks: int = 0
    ground: Shade | None = None


InkLine = tuple[Ink, ...]
BLANK: InkLine = ()


def inks_of(runs: Iterable[Run]) -> InkLine:
    """Return runs as a row of ink."""
    return tuple(Ink(run.text, run.role, run.marks) for run in runs)


def ink_cells(inks: Iterable[Ink]) -> int:
    """The width of a row on the screen."""
    return sum(cell_len(ink.text) for ink in inks)


def beside(left: Iterable[Ink], right: Iterable[Ink], cells: int) -> InkLine:
    """Return a row with something at either end; the right end wins where both do not fit."""
    ends = tuple(right)
    room = max(0, cells - ink_cells(ends) - (1 if ends else 0))
    kept = fitted(left, room)
    return (*kept, Ink(" " * max(0, cells - ink_cells(kept) - ink_cells(ends))), *ends)


def fitted(inks: Iterable[Ink], cells: int) -> InkLine:
    """Return as much of a row as there is room for; what is cut is cut between characters."""
    kept: list[Ink] = []
    room = cells
    for ink in inks:
        if room <= 0:
            break
        width = cell_len(ink.text)
        kept.append(ink if width <= room else ink._replace(text=set_cell_size(ink.text, room)))
        room -= width
    return tuple(kept)


def named(text: str, cells: int, *, ellipsis: str) -> str:
    """Return untrusted text on one line of exactly `cells`, cut with an ellipsis."""
    shown = visible(text)
    if cell_len(shown) > cells:
        shown = shortened(shown, cells, ellipsis)
    return set_cell_size(shown, cells)
