"""A Markdown text that grows at its end, as lines: settled blocks once, the open tail each time.

The cost of a flush is bounded whatever the answer's length: the tail is at most LIVE_CHARS of
text; what an unfinished block has beyond that is frozen in pieces, drawn exactly when the block
settles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it.token import Token

from localpaged.plain_text import visible
from localpaged.tui.markdown.blocks import lines_of, markdown_lines, parse
from localpaged.tui.markdown.line import BLANK, Line
from localpaged.tui.markdown.split import Splitter, has_link_definitions

LIVE_CHARS = 1_000
# a last line that will mean something else one character later is not drawn yet
_UNDECIDED = re.compile(r"[ ]*(?:[-+*=#>`~|:]|\d{1,9}[.)]?)[-+*=#`~|: ]*$")
_UNDECIDED_IN_FENCE = re.compile(r"[ ]*[`~]+$")


@dataclass(slots=True)
class _Block:
    tokens: Sequence[Token]
    lines: list[Line]


class GrowingMarkdown:
    """Lines of one text fed in pieces; UI thread only.

    Invariant: after `finish` the lines equal those of the whole text rendered at once.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._text = ""
        self._pending_return = ""
        self._splitter = Splitter()
        self._blocks: list[_Block] = []
        self._cut = 0
        self._settled: list[Line] = []
        self._tail = _LiveTail(width)
        self._tail_lines: list[Line] = []

    def __len__(self) -> int:
        return len(self._settled) + len(self._tail_lines)

    def __getitem__(self, index: int) -> Line:
        settled = len(self._settled)
        return self._settled[index] if index < settled else self._tail_lines[index - settled]

    @property
    def text(self) -> str:
        """All text so far, safe to show."""
        return self._text

    @property
    def lines(self) -> list[Line]:
        """All lines, as a copy."""
        return [*self._settled, *self._tail_lines]

    @property
    def num_settled_lines(self) -> int:
        """Lines that will not change before the next resize."""
        return len(self._settled)

    def feed(self, text: str) -> None:
        """Append raw text, as the model sent it."""
        text = self._pending_return + text
        # a carriage return may be half of a line end
        self._pending_return = "\r" if text.endswith("\r") else ""
        self._text += visible(text.removesuffix(self._pending_return), multiline=True)
        cut = self._splitter.feed(self._text)
        if cut > self._cut:
            self._settle(self._text[self._cut : cut])
            self._cut = cut
            self._tail = _LiveTail(self._width)
        self._draw_tail()

    def finish(self) -> None:
        """The text is complete: settle what is open."""
        self._text += visible(self._pending_return, multiline=True)
        self._pending_return = ""
        if has_link_definitions(self._text):
            self._blocks, self._settled, self._cut = [], [], 0
        self._settle(self._text[self._cut :])
        self._cut = len(self._text)
        self._tail_lines = []

    def resize(self, width: int) -> None:
        """Lay everything out again in `width` cells."""
        if width == self._width:
            return
        self._width = width
        self._settled = []
        for block in self._blocks:
            block.lines = lines_of(block.tokens, width)
            self._extend(block.lines)
        self._tail = _LiveTail(width)
        self._draw_tail()

    def _settle(self, source: str) -> None:
        tokens = parse(source)
        block = _Block(tokens, lines_of(tokens, self._width))
        self._blocks.append(block)
        self._extend(block.lines)

    def _extend(self, lines: Sequence[Line]) -> None:
        if self._settled and lines:
            self._settled.append(BLANK)
        self._settled.extend(lines)

    def _draw_tail(self) -> None:
        open_text = self._text[self._cut :]
        lines = self._tail.draw(open_text, is_fence=bool(self._splitter.open_fence))
        self._tail_lines = [BLANK, *lines] if self._settled and lines else lines


class _LiveTail:
    """The open block. Pieces beyond LIVE_CHARS are drawn once, on their own, and kept."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._frozen_chars = 0
        self._frozen: list[Line] = []

    def draw(self, text: str, *, is_fence: bool) -> list[Line]:
        opening = text[: text.find("\n") + 1] if is_fence else ""
        while len(text) - self._frozen_chars > LIVE_CHARS:
            end = self._frozen_chars + _piece_length(text[self._frozen_chars :][:LIVE_CHARS])
            self._frozen.extend(self._piece(text[self._frozen_chars : end], opening))
            self._frozen_chars = end
        undecided = _UNDECIDED_IN_FENCE if is_fence else _UNDECIDED
        rest = text[self._frozen_chars :]
        last_line = rest.rfind("\n") + 1
        if undecided.match(rest, last_line):
            rest = rest[:last_line]
        lines = self._piece(rest, opening, is_open=True)
        return [*self._frozen, *lines] if self._frozen else lines

    def _piece(self, text: str, opening: str, *, is_open: bool = False) -> list[Line]:
        if not opening:
            return markdown_lines(text, self._width)
        is_first = self._frozen_chars == 0
        lines = markdown_lines(text if is_first else opening + text, self._width)
        # a fence draws a label line above and an empty line below its code
        return lines[0 if is_first else 1 : len(lines) if is_open else -1]


def _piece_length(text: str) -> int:
    """Where to break `text`: after its last line end, else at its last space, else at its end."""
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark)
        if at >= len(text) // 2:
            return at + len(mark)
    return len(text)
