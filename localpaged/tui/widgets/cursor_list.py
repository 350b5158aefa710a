"""Rows of which each is one item, with a cursor in one of them: what tree and table share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual.binding import Binding, BindingType

from localpaged.tui.widgets.line_list import LineList

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.markdown.line import Line

R = TypeVar("R")


class CursorList(LineList, Generic[R]):
    """Draws the items it was given last; how a row looks is a subclass's. UI thread only.

    Invariant: `_cursor` indexes `_rows`, or there are none; `_lines` has rows as they are at the
    view's width.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next", show=False),
        Binding("up,k", "move(-1)", "Previous", show=False),
        Binding("pagedown", "move(10)", "Page down", show=False),
        Binding("pageup", "move(-10)", "Page up", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._rows: Sequence[R] = ()
        self._cursor = 0
        self._lines: dict[int, Line] = {}

    @property
    def chosen(self) -> R | None:
        """The item at the cursor."""
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    def put(self, rows: Sequence[R], *, cursor: int | None) -> None:
        """Draw these items, by default with the cursor where it was; rows that look as before
        cost nothing on the terminal.
        """
        self._rows = rows
        self._lines.clear()
        self._cursor = self._place(self._cursor if cursor is None else cursor)
        self.fit(len(rows))
        self.refresh_changed()

    def go_to(self, place: int) -> None:
        """Put the cursor on a row, the nearest one there is."""
        self._cursor = self._place(place)
        self.reveal(self._cursor, self._cursor + 1)
        self.refresh()

    def is_cursor(self, y: int) -> bool:
        """Return whether the focus is on that item."""
        return self.has_focus and y == self._cursor and y < len(self._rows)

    def _place(self, place: int) -> int:
        return max(0, min(place, len(self._rows) - 1))

    # what the user does

    def on_resize(self) -> None:
        """Rows are as wide as the view."""
        self._lines.clear()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on the row under it."""
        row = self.row_under(event)
        if row is not None and row < len(self._rows):
            self.go_to(row)

    def action_move(self, step: int) -> None:
        """Move the cursor over rows."""
        self.go_to(self._cursor + step)
