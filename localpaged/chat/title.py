"""Titles: plain text on one line."""

from __future__ import annotations

AUTO_TITLE_CHARS = 60
ELLIPSIS = "…"


def one_line(text: str) -> str:
    """Return `text` on one line: white space and what does not print become single spaces."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())


def auto_title(first_message: str) -> str:
    """Name a chat after the first words of its first message."""
    # A pasted book need not be cleaned to its last page for sixty characters.
    line = one_line(first_message[: AUTO_TITLE_CHARS * 20])
    if len(line) <= AUTO_TITLE_CHARS:
        return line
    cut = line[: AUTO_TITLE_CHARS - len(ELLIPSIS)]
    words, _, _ = cut.rpartition(" ")
    return (words or cut) + ELLIPSIS
