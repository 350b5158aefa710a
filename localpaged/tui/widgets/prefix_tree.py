"""The prefix tree, a branch a row: what it costs, who uses it, what sharing it saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.widget import Widget

from localpaged.tui.markdown.line import Line
from localpaged.tui.memory.tree_lines import tree_line
from localpaged.tui.memory.tree_rows import TreeRow
from localpaged.tui.paint import Painter

if TYPE_CHECKING:
    from textual import events
    from textual.strip import Strip

    from localpaged.tui.glyphs import Glyphs


class PrefixTreeView(ScrollView, can_focus=True):
    """Draws the rows it was given last. UI thread only.

    Invariant: `_cursor` indexes `_rows`, or there are none; it stays with its branch.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next", show=False),
        Binding("up,k", "move(-1)", "Previous", show=False),
        Binding("pagedown", "move(10)", "Page down", show=False),
        Binding("pageup", "move(-10)", "Page up", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"prefix-tree--cursor"}
    ALLOW_SELECT = False

    class Moved(Message):
        """The cursor is on another branch."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._rows: Sequence[TreeRow] = ()
        self._label: Callable[[TreeRow], str] = lambda row: ""
        self._cursor = 0
        self._painters: dict[bool, Painter] = {}
        self._painted: dict[int, tuple[Line, bool]] = {}
        self._lines: dict[int, Line] = {}

    @property
    def chosen(self) -> TreeRow | None:
        """The branch at the cursor."""
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    def show(self, rows: Sequence[TreeRow], label: Callable[[TreeRow], str]) -> None:
        """Draw these rows; those that look as before cost nothing on the terminal."""
        chosen = self.chosen
        self._rows, self._label = rows, label
        self._lines.clear()
        self._cursor = max(0, min(self._cursor, len(rows) - 1))
        if chosen is not None:
            found = (i for i, row in enumerate(rows) if row.has(chosen.top.id))
            self._cursor = next(found, self._cursor)
        size = Size(self.size.width, len(rows))
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)
        self._refresh_changed()

    def go_to(self, place: int) -> None:
        """Put the cursor on a row."""
        self._cursor = max(0, min(place, len(self._rows) - 1))
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def render_line(self, y: int) -> Strip:
        """Paint one row."""
        y += round(self.scroll_y)
        line, is_cursor = self._line(y), self._is_cursor(y)
        self._painted[y] = line, is_cursor
        width = self.scrollable_content_region.width
        painter = self._paint(is_cursor=is_cursor)
        return painter.strip(line, width=width, margin=0, column=width, y=y)

    def notify_style_update(self) -> None:
        """The theme or a style changed: paint anew."""
        super().notify_style_update()
        self._painters.clear()

    def _refresh_changed(self) -> None:
        top = round(self.scroll_y)
        width = self.scrollable_content_region.width
        for y in range(top, top + self.scrollable_content_region.height):
            if self._painted.get(y) != (self._line(y), self._is_cursor(y)):
                self.refresh(Region(0, y - top, width, 1))

    def _line(self, y: int) -> Line:
        if y >= len(self._rows):
            return Line()
        if y not in self._lines:
            row = self._rows[y]
            width = self.scrollable_content_region.width
            self._lines[y] = tree_line(row, self._label(row), self._glyphs, width)
        return self._lines[y]

    def _is_cursor(self, y: int) -> bool:
        return self.has_focus and y == self._cursor and y < len(self._rows)

    def _paint(self, *, is_cursor: bool) -> Painter:
        painter = self._painters.get(is_cursor)
        if painter is None:
            ground = self.get_visual_style(*(["prefix-tree--cursor"] if is_cursor else []))
            painter = self._painters[is_cursor] = Painter(ground, ground)
        return painter

    def _reveal(self) -> None:
        height = max(1, self.scrollable_content_region.height)
        top = round(self.scroll_y)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= top + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False)

    # what the user does

    def on_resize(self) -> None:
        """Rows are as wide as the view."""
        self._lines.clear()
        self.refresh()

    def on_focus(self) -> None:
        """The cursor shows while the tree has the focus."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor shows while the tree has the focus."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on the row under it."""
        offset = event.get_content_offset(self)
        if offset is not None and round(self.scroll_y) + offset.y < len(self._rows):
            self.go_to(round(self.scroll_y) + offset.y)

    def action_move(self, step: int) -> None:
        """Move the cursor over rows."""
        self.go_to(self._cursor + step)
