"""Rows drawn line by line, one place of which is at the cursor: what all such lists share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.widget import Widget

from localpaged.tui.paint import Painter
from localpaged.tui.widgets.bare_rows import bare_rows

if TYPE_CHECKING:
    from textual import events
    from textual.strip import Strip

    from localpaged.tui.markdown.line import Line


KEPT_STRIPS = 500
"""What turns in a row, as a spinner does, looks as it did a moment ago: then its strip is there."""

Look = tuple["Line", bool, int]
"""What a row is painted from: its line, whether it is at the cursor, its cells."""


class LineList(ScrollView, can_focus=True):
    """Paints what `line_at` and `is_cursor` say; what the rows are is a subclass's. UI thread only.

    Invariant: `_painted` has what each row looked like when it was painted last; `_strips` are of
    the current colours.
    """

    ALLOW_SELECT = False
    CURSOR: ClassVar[str]
    """The component class of rows at the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._painters: dict[bool, Painter] = {}
        self._painted: dict[int, Look] = {}
        self._strips: dict[tuple[int, Look], Strip] = {}

    def line_at(self, y: int) -> Line:
        """Return a row; blank beyond the last one."""
        raise NotImplementedError

    def is_cursor(self, y: int) -> bool:
        """Return whether a row is drawn as chosen."""
        raise NotImplementedError

    @property
    def row_cells(self) -> int:
        """How wide rows are."""
        return max(1, self.scrollable_content_region.width)

    def fit(self, num_rows: int) -> None:
        """Tell the scrollbar how many rows there are."""
        size = Size(self.row_cells, num_rows)
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    def refresh_changed(self) -> None:
        """Repaint the rows in view that look other than they were painted last."""
        top, cells = round(self.scroll_y), self.row_cells
        changed = [
            Region(0, y - top, cells, 1)
            for y in range(top, top + self.scrollable_content_region.height)
            if self._painted.get(y) != (self.line_at(y), self.is_cursor(y), cells)
        ]
        if changed:
            self.refresh(*changed)
        if len(self._strips) > KEPT_STRIPS:
            self._strips.clear()

    def reveal(self, first: int, end: int, *, above: int = 0) -> None:
        """Scroll until the rows `first` to `end` are in view; upwards, with some `above` them."""
        height = max(1, self.scrollable_content_region.height)
        top = round(self.scroll_y)
        if first < top:
            self.scroll_to(y=max(0, first - above), animate=False)
        elif end > top + height:
            self.scroll_to(y=end - height, animate=False)

    def row_under(self, event: events.Click) -> int | None:
        """Return the row that was clicked, which may be beyond the last one."""
        offset = event.get_content_offset(self)
        return None if offset is None else round(self.scroll_y) + offset.y

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint rows of the viewport."""
        ground = self._painter(is_cursor=False).ground
        rows = bare_rows(self, crop, row=self.render_line, ground=ground)
        return super().render_lines(crop) if rows is None else rows

    def render_line(self, y: int) -> Strip:
        """Paint one row."""
        y += round(self.scroll_y)
        line, is_cursor = self.line_at(y), self.is_cursor(y)
        cells = self.row_cells
        look = self._painted[y] = line, is_cursor, cells
        strip = self._strips.get((y, look))
        if strip is None:
            painter = self._painter(is_cursor=is_cursor)
            strip = painter.strip(line, width=cells, margin=0, column=cells, y=y)
            self._strips[y, look] = strip
        return strip

    def _painter(self, *, is_cursor: bool) -> Painter:
        painter = self._painters.get(is_cursor)
        if painter is None:
            ground = self.get_visual_style(*([self.CURSOR] if is_cursor else []))
            painter = self._painters[is_cursor] = Painter(ground, ground)
        return painter

    def notify_style_update(self) -> None:
        """The theme or a style changed: paint anew."""
        super().notify_style_update()
        self._painters.clear()
        self._strips.clear()

    def on_focus(self) -> None:
        """The cursor may show only while the list has the focus."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor may show only while the list has the focus."""
        self.refresh()
