"""Facts of the terminal: what the chat can show on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from localpaged.doctor.fact import Fact, note

SMALL = (60, 16)
"""Columns and rows below which the chat leaves much out."""
_COLOURS = {"truecolor": "16 million", "24bit": "16 million"}


@dataclass(frozen=True, slots=True)
class Streams:
    """What the standard streams are: terminals, of this size, with this encoding."""

    has_input: bool
    has_output: bool
    columns: int
    rows: int
    encoding: str


def read_streams(stdin_fd: int = 0, stdout_fd: int = 1, *, encoding: str = "") -> Streams:
    """Look at the descriptors; `encoding` is stdout's."""
    columns = rows = 0
    with suppress(OSError):  # no terminal, which is a fact and told as one
        columns, rows = os.get_terminal_size(stdout_fd)
    return Streams(_is_terminal(stdin_fd), _is_terminal(stdout_fd), columns, rows, encoding)


def terminal_facts(streams: Streams, environment: Mapping[str, str]) -> Iterator[Fact]:
    """Tell whether the chat has a terminal, which, in what size, colours and characters."""
    yield _kind(streams, environment)
    if streams.has_output:
        yield _size(streams)
    yield _colours(environment)
    yield _characters(streams, environment)


def _kind(streams: Streams, environment: Mapping[str, str]) -> Fact:
    from localpaged.tui.terminal import DUMB_TERMINALS

    kind = environment.get("TERM", "")
    numbers = {"term": kind or None, "is_terminal": streams.has_input and streams.has_output}
    if not (streams.has_input and streams.has_output):
        what = "stdout is no terminal" if not streams.has_output else "stdin is no terminal"
        text = f"{what}: fine for `ask` and `--json`; the chat needs one"
        return Fact("terminal", text, numbers=numbers)
    if kind.lower() in DUMB_TERMINALS:
        advice = "The chat cannot be drawn here: use another terminal, or `localpaged ask`."
        return note("terminal", f"TERM is {kind}", advice, **numbers)
    if not kind:
        advice = "Export TERM, such as xterm-256color: programs guess without it."
        return note("terminal", "TERM is not set", advice, **numbers)
    return Fact("terminal", kind, numbers=numbers)


def _size(streams: Streams) -> Fact:
    text = f"{streams.columns} columns, {streams.rows} rows"
    numbers = {"columns": streams.columns, "rows": streams.rows}
    if streams.columns < SMALL[0] or streams.rows < SMALL[1]:
        advice = f"Make it {SMALL[0]} columns and {SMALL[1]} rows at least to see everything."
        return note("size", text, advice, **numbers)
    return Fact("size", text, numbers=numbers)


def _colours(environment: Mapping[str, str]) -> Fact:
    if environment.get("NO_COLOR"):
        return Fact("colours", "none: NO_COLOR is set")
    told = environment.get("COLORTERM", "").lower()
    if told in _COLOURS:
        return Fact("colours", f"{_COLOURS[told]} (COLORTERM is {told})")
    kind = environment.get("TERM", "")
    count = "256" if "256" in kind else "16"
    return Fact("colours", f"{count}, as TERM says")


def _characters(streams: Streams, environment: Mapping[str, str]) -> Fact:
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    locale = next((environment[name] for name in names if environment.get(name)), "")
    is_utf8 = streams.encoding.lower().replace("-", "") in ("utf8", "")
    text = f"{streams.encoding or 'UTF-8'}, locale {locale or 'C'}"
    if not is_utf8:
        advice = "Set a UTF-8 locale, such as LC_ALL=C.UTF-8, or start the chat with --ascii."
        return note("characters", text, advice, encoding=streams.encoding)
    return Fact("characters", text, numbers={"encoding": streams.encoding or "utf-8"})


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
