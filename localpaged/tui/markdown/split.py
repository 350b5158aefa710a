"""Where a growing Markdown text may be cut: before the cut nothing can change any more.

A cut lies at the start of a line that begins a new top-level block whatever follows. The text
before it then parses alone to exactly the blocks it has in the whole (link definitions apart,
see `has_link_definitions`). Being late is allowed, being wrong is not.
"""

from __future__ import annotations

import re

from localpaged.tui.markdown.blocks import block_starts

# a line that may go on with a list, so the list before it is not over
_LIST_MARKER = re.compile(r"[-+*]|\d{1,9}[.)]")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})")
_LINK_DEFINITION = re.compile(r"^[ >\d.)*+-]*\[[^\]]+\]:", re.MULTILINE)


def has_link_definitions(text: str) -> bool:
    """Whether text elsewhere may turn brackets of this text into links, or the other way round."""
    return _LINK_DEFINITION.search(text) is not None


class Splitter:
    """Finds the cuts of one text that grows. Work is linear in the text, however it arrives.

    Invariant: `cut` never moves back; lines before it are settled. Lines end in line feeds alone.
    """

    def __init__(self) -> None:
        self.cut = 0
        self._text = ""
        self._scanned = 0
        self._is_after_blank = True
        self._fence = ""
        self._next_try_chars = 0

    @property
    def open_fence(self) -> str:
        """The opening marks of the top-level code fence the text ends in, or ""."""
        return self._fence

    def feed(self, text: str) -> int:
        """Take the whole text so far (it may only have grown); return the new cut."""
        self._text = text
        while (newline := text.find("\n", self._scanned)) >= 0:
            start, self._scanned = self._scanned, newline + 1
            self._take_line(start, text[start:newline])
        return self.cut

    def _take_line(self, start: int, line: str) -> None:
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
                self._settle(self._scanned)
            return
        is_blank = not line.strip(" \t")
        if not is_blank and self._may_begin_block(line):
            self._try_cut(start)
        if start == self.cut and (opening := _FENCE.match(line)):
            self._fence = opening["fence"]
        self._is_after_blank = is_blank

    def _may_begin_block(self, line: str) -> bool:
        if line[0] in " \t":
            return False
        return self._is_after_blank or line[0] in "#`~"

    def _try_cut(self, start: int) -> None:
        """Cut at `start` if a parse of the open text has a top-level block that begins there."""
        if start == self.cut or start - self.cut < self._next_try_chars:
            return
        open_text = self._text[self.cut : self._scanned]
        line_number = self._text.count("\n", self.cut, start)
        starts = block_starts(open_text)
        if line_number in starts and not self._is_list_going_on(start, starts, line_number):
            self._settle(start)
        else:
            # an unfinished block is parsed again only after it has grown by a quarter
            self._next_try_chars = (start - self.cut) * 5 // 4

    def _is_list_going_on(self, start: int, starts: dict[int, str], line_number: int) -> bool:
        before = max((number for number in starts if number < line_number), default=None)
        is_list = before is not None and starts[before].endswith("list_open")
        return is_list and _LIST_MARKER.match(self._text, start) is not None

    def _settle(self, cut: int) -> None:
        self.cut = cut
        self._next_try_chars = 0
        self._is_after_blank = True


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip(" \t")
    indent = len(line) - len(line.lstrip(" "))
    return indent < 4 and len(stripped) >= len(fence) and set(stripped) == {fence[0]}
