"""A report as lines for people: a word for each verdict, and what to do below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
from rich.cells import cell_len

from localpaged.doctor.fact import Fact, Report, Verdict
from localpaged.plain_text import visible

NAME_CELLS = 18
MIN_TEXT_CELLS = 20
_WORDS = {Verdict.OK: "ok", Verdict.NOTE: "note", Verdict.PROBLEM: "PROBLEM"}
_COLOURS = {Verdict.OK: "green", Verdict.NOTE: "yellow", Verdict.PROBLEM: "red"}
_WORD_CELLS = max(map(len, _WORDS.values())) + 1


def wants_colours(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Whether whoever reads has colours and wants them."""
    is_dumb = environment.get("TERM", "").lower() in ("", "dumb", "unknown")
    return is_terminal and not is_dumb and not environment.get("NO_COLOR")


def report_lines(report: Report, *, columns: int | None, has_colours: bool) -> Iterator[str]:
    """Return the lines; with `columns` none is longer, else a pipe takes them whole."""
    for group in report.groups:
        yield _styled(visible(group.name), has_colours, bold=True)
        for fact in group.facts:
            yield from _fact_lines(fact, columns, has_colours)
        yield ""
    counts = [
        _counted(report.count(verdict), verdict) for verdict in (Verdict.PROBLEM, Verdict.NOTE)
    ]
    told = [count for count in counts if count]
    yield f"{' and '.join(told)}." if told else "Nothing is wrong."


def report_record(report: Report, *, version: str) -> dict[str, Any]:
    """Return the report as JSON."""
    return {
        "schema_version": "1.0",
        "version": version,
        "verdict": report.verdict.value,
        "problems": report.count(Verdict.PROBLEM),
        "notes": report.count(Verdict.NOTE),
        "facts": [
            {
                "group": group.name,
                "name": fact.name,
                "verdict": fact.verdict.value,
                "value": fact.value,
                "advice": fact.advice,
                "numbers": dict(fact.numbers),
            }
            for group in report.groups
            for fact in group.facts
        ],
    }


def _fact_lines(fact: Fact, columns: int | None, has_colours: bool) -> Iterator[str]:
    word = _WORDS[fact.verdict].ljust(_WORD_CELLS)
    name = visible(fact.name).ljust(NAME_CELLS)
    start = _WORD_CELLS + NAME_CELLS
    value, advice = visible(fact.value), visible(fact.advice)
    is_narrow = columns is not None and columns - start - 2 < MIN_TEXT_CELLS
    if is_narrow:
        # what is told gets lines of its own
        start = 4
    room = None if columns is None else max(MIN_TEXT_CELLS // 2, columns - start - 2)
    rows = list(_wrapped(value, room)) + [f"> {row}" for row in _wrapped(advice, room, less=2)]
    word = _styled(word, has_colours, fg=_COLOURS[fact.verdict])
    if is_narrow:
        yield f"  {word}{name}".rstrip()
    for number, row in enumerate(rows):
        head = f"  {word}{name} " if number == 0 and not is_narrow else " " * (start + 3)
        yield f"{head[:-1]}{row}".rstrip()


def _wrapped(text: str, room: int | None, *, less: int = 0) -> Iterator[str]:
    """Return rows of whole words, as far as words fit into a row."""
    if room is None:
        if text:
            yield text
        return
    row = ""
    for word in text.split():
        if row and cell_len(row) + 1 + cell_len(word) > room - less:
            yield row
            row = ""
        row = f"{row} {word}" if row else word
        while cell_len(row) > room - less:
            cut = _cut(row, room - less)
            yield row[:cut]
            row = row[cut:]
    if row:
        yield row


def _cut(text: str, cells: int) -> int:
    """Return how many characters fit, one at least."""
    count = len(text)
    while count > 1 and cell_len(text[:count]) > cells:
        count -= 1
    return count


def _styled(text: str, has_colours: bool, **style: Any) -> str:
    return click.style(text, **style) if has_colours else text


def _counted(count: int, verdict: Verdict) -> str:
    return f"{count} {verdict.value}{'' if count == 1 else 's'}" if count else ""
