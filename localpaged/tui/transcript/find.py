"""Finding a text in one chat: in its messages first, then the line of the screen that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from localpaged.store.fold import fold, folded_with_origins
from localpaged.tui.transcript.cells import Cell, QuestionCell
from localpaged.tui.transcript.document import Document


class FoundLine(NamedTuple):
    """Line `offset` of the cell that shows a message; `entry` counts the chat's messages."""

    entry: int
    offset: int


def needle_of(query: str) -> str:
    """Return what is looked for: folded, white space as single spaces."""
    return " ".join(fold(query).split())


def next_line(
    document: Document, needles: Sequence[str], after: FoundLine, step: int
) -> FoundLine | None:
    """Return the next line with one of `needles` below (`step` 1) or above (-1) `after`.

    Older messages are laid out on the way. None: there is none in that direction.
    """
    entries = document.session.entries
    last = len(entries) - 1
    positions = (
        range(max(0, after.entry), last + 1) if step > 0 else range(min(last, after.entry), -1, -1)
    )
    for position in positions:
        text = _one_spaced(fold(entries[position].text))
        if not any(needle in text for needle in needles):
            continue
        for offset in _in_order(_lines_with(document, position, needles), step):
            line = FoundLine(position, offset)
            if line > after if step > 0 else line < after:
                return line
    return None


def first_line(document: Document, entry: int, needles: Sequence[str]) -> FoundLine:
    """Return the first line of a message with one of `needles`, else the message's first line."""
    return FoundLine(entry, next(iter(_lines_with(document, entry, needles)), 0))


def _in_order(offsets: list[int], step: int) -> Iterator[int]:
    return iter(offsets) if step > 0 else reversed(offsets)


def _lines_with(document: Document, entry: int, needles: Sequence[str]) -> list[int]:
    index = document.reach(entry)
    cell = document.cells[index]
    found = lines_with(cell, needles)
    if not found and isinstance(cell, QuestionCell) and cell.is_folded:
        document.toggle_fold(index)
        found = lines_with(cell, needles)
        if not found:
            document.toggle_fold(index)
    return found


def lines_with(cell: Cell, needles: Sequence[str]) -> list[int]:
    """Which lines of a cell a needle begins in; one may go on in the next line."""
    pieces: list[str] = []
    starts: list[int] = []
    length = 0
    for number in range(len(cell)):
        line = cell[number]
        # what wrapping swallowed stands between the lines again
        piece = (line.glue if number else "") + line.plain
        starts.append(length + len(piece) - len(line.plain))
        pieces.append(piece)
        length += len(piece)
    folded, origins = folded_with_origins(_one_spaced("".join(pieces), keep_length=True))
    found: set[int] = set()
    for needle in filter(None, needles):
        at = folded.find(needle)
        while at >= 0:
            found.add(max(n for n, start in enumerate(starts) if start <= origins[at]))
            at = folded.find(needle, at + len(needle))
    return sorted(found)


def _one_spaced(text: str, *, keep_length: bool = False) -> str:
    if keep_length:
        return text.replace("\n", " ").replace("\t", " ")
    return " ".join(text.split())
