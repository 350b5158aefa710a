"""Attached files as they stand in a message: a line with the name, then a fenced block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from localpaged.plain_text import visible

_HEAD = re.compile(r"^File: ([^\n]+)\n(`{3,64})(?!`)[^\n`]*\n", re.MULTILINE)
_KIND = re.compile(r"[A-Za-z0-9+#-]{1,12}")


class Attached(NamedTuple):
    """Where a file stands in a message, its name, and how many lines it has."""

    start: int
    stop: int
    name: str
    num_lines: int


def file_block(name: str, text: str) -> str:
    """Return an attached file as it stands in the message."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    suffix = PurePath(name).suffix.removeprefix(".")
    kind = suffix if _KIND.fullmatch(suffix) else ""
    return f"File: {visible(name)}\n{fence}{kind}\n{text}\n{fence}"


def attached_files(message: str) -> Iterator[Attached]:
    """Find the files of a message, the first one first."""
    at = 0
    while (head := _HEAD.search(message, at)) is not None:
        end = _end_of_fence(message, head[2], head.end() - 1)
        if end:
            num_lines = message.count("\n", head.end(), end)
            yield Attached(head.start(), end, head[1], num_lines)
        at = end or head.end()


def is_attached_file(text: str) -> bool:
    """Whether a text is an attached file and nothing else."""
    return [(file.start, file.stop) for file in attached_files(text)] == [(0, len(text))]


def without_files(message: str) -> str:
    """Return what was written besides the files; their names when that is nothing."""
    parts: list[str] = []
    names: list[str] = []
    end = 0
    for file in attached_files(message):
        parts.append(message[end : file.start])
        names.append(file.name)
        end = file.stop
    written = "".join([*parts, message[end:]])
    return written if written.strip() else ", ".join(names)


def _end_of_fence(text: str, fence: str, at: int) -> int:
    """Where the line that closes a fence ends; 0 when none does."""
    while (at := text.find(f"\n{fence}", at)) >= 0:
        at += 1 + len(fence)
        if text[at : at + 1] in ("", "\n"):
            return at
    return 0
