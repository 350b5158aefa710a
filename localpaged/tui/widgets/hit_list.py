"""A list of items of one or more rows each, drawn line by line; one of them is chosen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.widget import Widget

from localpaged.tui.markdown.line import Line
from localpaged.tui.paint import Painter

if TYPE_CHECKING:
    from textual import events
    from textual.strip import Strip


class HitList(ScrollView, can_focus=True):
    """Shows the rows it was given last; what is chosen is posted, not done. UI thread only.

    Invariant: `cursor` is an item, or 0 when there is none; `_ends[i]` is the row after item i.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Next", show=False),
        Binding("k", "move(-1)", "Previous", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"hit-list--cursor"}
    ALLOW_SELECT = False

    class Chosen(Message):
        """The item at the cursor is to be opened."""

    class Moved(Message):
        """Another item is at the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.cursor = 0
        self._rows: list[Line] = []
        self._ends: list[int] = []
        self._painters: dict[bool, Painter] = {}

    @property
    def row_cells(self) -> int:
        """How wide rows are."""
        return max(1, self.scrollable_content_region.width)

    def show(self, items: Sequence[Sequence[Line]], *, cursor: int) -> None:
        """Show the rows of these items."""
        self._rows = [line for lines in items for line in lines]
        self._ends = list(accumulate(len(lines) for lines in items))
        self.cursor = max(0, min(cursor, len(items) - 1))
        size = Size(self.row_cells, len(self._rows))
        self.set_reactive(Widget.virtual_size, size)
        self._scroll_update(size)
        self._reveal()
        self.refresh()

    def action_move(self, step: int) -> None:
        """Move the cursor, as far as there are items."""
        if self._ends:
            self.cursor = max(0, min(len(self._ends) - 1, self.cursor + step))
            self._reveal()
            self.refresh()
            self.post_message(self.Moved())

    def render_line(self, y: int) -> Strip:
        """Paint one row."""
        y += round(self.scroll_y)
        line = self._rows[y] if y < len(self._rows) else Line()
        is_cursor = y < len(self._rows) and bisect_right(self._ends, y) == self.cursor
        painter = self._paint(is_cursor=is_cursor)
        return painter.strip(line, width=self.row_cells, margin=0, column=self.row_cells, y=y)

    def notify_style_update(self) -> None:
        """The theme or a style changed: paint anew."""
        super().notify_style_update()
        self._painters.clear()

    def on_click(self, event: events.Click) -> None:
        """A click opens the item under it."""
        offset = event.get_content_offset(self)
        y = round(self.scroll_y) + (offset.y if offset is not None else len(self._rows))
        if y < len(self._rows):
            self.cursor = bisect_right(self._ends, y)
            self.refresh()
            self.post_message(self.Chosen())

    def _paint(self, *, is_cursor: bool) -> Painter:
        painter = self._painters.get(is_cursor)
        if painter is None:
            ground = self.get_visual_style(*(["hit-list--cursor"] if is_cursor else []))
            painter = self._painters[is_cursor] = Painter(ground, ground)
        return painter

    def _reveal(self) -> None:
        if not self._ends:
            return
        height = max(1, self.scrollable_content_region.height)
        first = self._ends[self.cursor - 1] if self.cursor else 0
        end, top = self._ends[self.cursor], round(self.scroll_y)
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif end > top + height:
            self.scroll_to(y=end - height, animate=False)
