"""Titles: plain text on one line."""

from __future__ import annotations

from localpaged.chat.attached import without_files

AUTO_TITLE_CHARS = 60
MAX_TITLE_CHARS = 500
"""Lists draw every title; more than that is a text, and there are files that call a book one."""
ELLIPSIS = "…"
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"  # scripts and emoji need them


def one_line(text: str) -> str:
    """Return `text` on one line: white space and what does not print become single spaces.

    It is cut behind MAX_TITLE_CHARS characters.
    """
    # What is cut need not be cleaned first, whatever its length.
    head = text[: MAX_TITLE_CHARS * 20]
    printable = "".join(c if c.isprintable() or c in _JOINERS else " " for c in head)
    line = " ".join(printable.split())
    if len(line) <= MAX_TITLE_CHARS:
        return line
    return line[: MAX_TITLE_CHARS - len(ELLIPSIS)].rstrip() + ELLIPSIS


def auto_title(first_message: str) -> str:
    """Name a chat after the first words of its first message."""
    written = without_files(first_message)
    # A pasted book need not be cleaned to its last page for sixty characters.
    line = one_line(written[: AUTO_TITLE_CHARS * 20])
    if len(line) <= AUTO_TITLE_CHARS:
        return line
    cut = line[: AUTO_TITLE_CHARS - len(ELLIPSIS)]
    is_whole_word = line[len(cut)] == " "
    words = cut if is_whole_word else cut.rpartition(" ")[0]
    return (words or cut).rstrip() + ELLIPSIS
