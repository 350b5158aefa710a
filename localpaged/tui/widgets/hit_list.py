"""A list of items of one or more rows each, drawn line by line; one of them is chosen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from localpaged.tui.markdown.line import Line
from localpaged.tui.widgets.line_list import LineList

if TYPE_CHECKING:
    from textual import events


class HitList(LineList):
    """Shows the rows it was given last; what is chosen is posted, not done. UI thread only.

    Invariant: `cursor` is an item, or 0 when there is none; `_ends[i]` is the row after item i.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Next", show=False),
        Binding("k", "move(-1)", "Previous", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
    ]
    CURSOR = "hit-list--cursor"
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR}

    class Chosen(Message):
        """The item at the cursor is to be opened."""

    class Moved(Message):
        """Another item is at the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.cursor = 0
        self._rows: list[Line] = []
        self._ends: list[int] = []

    def show(self, items: Sequence[Sequence[Line]], *, cursor: int) -> None:
        """Show the rows of these items."""
        self._rows = [line for lines in items for line in lines]
        self._ends = list(accumulate(len(lines) for lines in items))
        self.cursor = max(0, min(cursor, len(items) - 1))
        self.fit(len(self._rows))
        self._reveal()
        self.refresh()

    def action_move(self, step: int) -> None:
        """Move the cursor, as far as there are items."""
        if self._ends:
            self.cursor = max(0, min(len(self._ends) - 1, self.cursor + step))
            self._reveal()
            self.refresh()
            self.post_message(self.Moved())

    def line_at(self, y: int) -> Line:
        """Return a row of an item."""
        return self._rows[y] if y < len(self._rows) else Line()

    def is_cursor(self, y: int) -> bool:
        """Return whether the row is the chosen item's."""
        return y < len(self._rows) and bisect_right(self._ends, y) == self.cursor

    def on_click(self, event: events.Click) -> None:
        """A click opens the item under it."""
        y = self.row_under(event)
        if y is not None and y < len(self._rows):
            self.cursor = bisect_right(self._ends, y)
            self.refresh()
            self.post_message(self.Chosen())

    def _reveal(self) -> None:
        if not self._ends:
            return
        first = self._ends[self.cursor - 1] if self.cursor else 0
        self.reveal(first, self._ends[self.cursor])
