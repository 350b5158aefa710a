"""One line of the chrome: something at the left, something at the right. Never changes height."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widget import Widget

from localpaged.tui.markdown.line import Run
from localpaged.tui.paint import cells_of, content_of


class StatusLine(Widget):
    """Draws what it was given last; drawing it again costs no layout."""

    DEFAULT_CSS = "StatusLine { height: 1; width: 1fr; padding: 0 1; }"
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._left: Sequence[Run] = ()
        self._right: Sequence[Run] = ()

    @property
    def plain(self) -> str:
        """What stands in the line."""
        return str(self.render())

    def room_beside(self, right: Sequence[Run]) -> int:
        """Cells that are left for the left side beside these runs."""
        cells = cells_of(right)
        return max(0, self.content_size.width - cells - (1 if cells else 0))

    def set(self, left: Sequence[Run], right: Sequence[Run] = ()) -> None:
        """Show these runs; the right ones win where both do not fit."""
        if left != self._left or right != self._right:
            self._left, self._right = left, right
            self.refresh()

    def render(self) -> Content:
        """The line at the current width."""
        width, right_cells = self.content_size.width, cells_of(self._right)
        room = self.room_beside(self._right)
        left = content_of(self._left)
        if left.cell_length > room:
            left = left.truncate(room, ellipsis=room > 1)
        gap = " " * max(0, width - left.cell_length - right_cells)
        return Content("").join([left, gap, content_of(self._right)])
