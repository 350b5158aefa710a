"""Labels: what stands in the prompt for a text that is too long or too strange to show in it.

A paste becomes `[pasted 312 lines]`, an attached file `[notes.txt 312 lines]`, both with their
price once it is known. In the message a file is a fenced block under a line with its name; that
very form makes it a label again when a draft is read from the history.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from rich.cells import cell_len

from localpaged.chat.attached import attached_files, is_attached_file
from localpaged.plain_text import visible
from localpaged.tui.figures import grouped
from localpaged.tui.shortened import shortened

Price = tuple[str, ...]
"""Tokens and blocks, in words; or that it is more than can ever be read."""
TOO_LONG: Price = ("too long for the context",)

MAX_PLAIN_CHARS = 2_000
MAX_PLAIN_LINES = 20
NAME_CELLS = 28
_PRICED = re.compile(rf" (?:tok [·|] [\d,]+ blocks?|{TOO_LONG[0]})\]\Z")


def is_priced(label: str) -> bool:
    """Whether a label tells what its text costs."""
    return _PRICED.search(label) is not None


def is_plain(text: str) -> bool:
    """Whether the prompt's widget holds and shows `text` exactly, and at once."""
    if len(text) > MAX_PLAIN_CHARS or text.count("\n") >= MAX_PLAIN_LINES:
        return False
    return visible(text, multiline=True) == text and len(text.splitlines()) <= text.count("\n") + 1


def label_for(
    text: str, *, taken: Container[str], price: Price | None = None, dot: str = "·"
) -> str:
    """Return a label for `text` that is not taken; `dot` stands before each part of a price."""
    if is_attached_file(text):
        (file,) = attached_files(text)
        what, lines = _short(file.name), file.num_lines
        size = "1 line" if lines == 1 else f"{grouped(lines)} lines"
    else:
        what, lines = "pasted", text.count("\n") + 1
        size = f"{grouped(len(text))} characters" if lines == 1 else f"{grouped(lines)} lines"
    end = "".join(f" {dot} {part}" for part in price or ()) + "]"
    label, number = f"[{what} {size}{end}", 1
    while label in taken:
        number += 1
        label = f"[{what} {size} #{number}{end}"
    return label


def folded(full: str) -> tuple[str, dict[str, str]]:
    """Return `full` with labels for attached files and for what is not plain, and their texts."""
    parts: list[str] = []
    pastes: dict[str, str] = {}

    def add(text: str, *, is_file: bool) -> None:
        if is_file or not is_plain(text):
            label = label_for(text, taken=Taken(pastes, full))
            pastes[label] = text
            text = label
        parts.append(text)

    end = 0
    for file in attached_files(full):
        add(full[end : file.start], is_file=False)
        add(full[file.start : file.stop], is_file=True)
        end = file.stop
    add(full[end:], is_file=False)
    return "".join(parts), pastes


def with_file_labels(message: str) -> str:
    """Return a message with labels in place of its files, for where it is shown short."""
    parts: list[str] = []
    end = 0
    for file in attached_files(message):
        label = label_for(message[file.start : file.stop], taken=())
        parts += [message[end : file.start], label]
        end = file.stop
    return "".join([*parts, message[end:]])


def expanded(text: str, pastes: Mapping[str, str]) -> str:
    """Return `text` with every label's first occurrence replaced; files stand in lines alone."""
    if not pastes:
        return text
    parts: list[str] = []
    used: set[str] = set()
    for piece in labels_in(pastes).split(text):
        if piece not in pastes or piece in used:
            if piece and parts and is_attached_file(parts[-1]) and not piece.startswith("\n"):
                piece = "\n" + piece.removeprefix(" ")
            parts.append(piece)
            continue
        used.add(piece)
        block = pastes[piece]
        before = "".join(parts[-1:])
        if is_attached_file(block) and before and not before.endswith("\n"):
            parts[-1] = before.rstrip(" ") + "\n"
        parts.append(block)
    return "".join(parts)


def labels_in(pastes: Mapping[str, str]) -> re.Pattern[str]:
    """What finds labels in a text; the labels themselves are its one group."""
    return re.compile("(" + "|".join(map(re.escape, pastes)) + ")")


class Taken:
    """Labels that exist, and what looks like one in a text of its own."""

    def __init__(self, pastes: Mapping[str, str], text: str) -> None:
        self._pastes = pastes
        self._text = text

    def __contains__(self, label: object) -> bool:
        return label in self._pastes or str(label) in self._text


def _short(name: str) -> str:
    shown = visible(name).replace("[", "(").replace("]", ")")
    return shown if cell_len(shown) <= NAME_CELLS else shortened(shown, NAME_CELLS, "..")
