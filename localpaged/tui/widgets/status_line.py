"""One line of the chrome: something at the left, something at the right. Never changes height."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Region, Spacing
from textual.strip import Strip
from textual.widget import Widget

from localpaged.tui.markdown.line import Line, Run
from localpaged.tui.paint import Painter, cells_of, content_of, cut_runs
from localpaged.tui.widgets.bare_rows import finished, has_bare_rows


class StatusLine(Widget):
    """Draws what it was given last; drawing it again costs no layout.

    Invariant: `_strip` is the line as `_runs` has it in `_room`, cells and padding, or None.
    """

    DEFAULT_CSS = "StatusLine { height: 1; width: 1fr; padding: 0 1; }"
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._left: Sequence[Run] = ()
        self._right: Sequence[Run] = ()
        self._painter: Painter | None = None
        self._strip: Strip | None = None
        self._room: tuple[int, Spacing] | None = None

    @property
    def plain(self) -> str:
        """What stands in the line."""
        return "".join(run.text for run in self._runs)

    def room_beside(self, right: Sequence[Run]) -> int:
        """Cells that are left for the left side beside these runs."""
        cells = cells_of(right)
        return max(0, self.content_size.width - cells - (1 if cells else 0))

    def set(self, left: Sequence[Run], right: Sequence[Run] = ()) -> None:
        """Show these runs; the right ones win where both do not fit."""
        if left != self._left or right != self._right:
            self._left, self._right = left, right
            self._strip = None
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint the line."""
        padding = self.styles.padding
        width, height = self.outer_size
        if padding.height or height != 1 or not has_bare_rows(self):
            return super().render_lines(crop)
        if self._strip is None or self._room != (width, padding):
            self._room = width, padding
            self._strip = self._paint().strip(
                Line(tuple(self._runs)), width=width, margin=padding.left, column=width, y=0
            )
        return finished(self, [self._strip], crop)

    def render(self) -> Content:
        """The line at the current width."""
        return content_of(self._runs)

    def notify_style_update(self) -> None:
        """The theme or a style changed: paint anew."""
        super().notify_style_update()
        self._painter = self._strip = None

    @property
    def _runs(self) -> list[Run]:
        room, right = self.room_beside(self._right), cells_of(self._right)
        left = cut_runs(self._left, room, mark="…" if room > 1 else "")
        gap = self.content_size.width - cells_of(left) - right
        return [*left, Run(" " * max(0, gap)), *self._right]

    def _paint(self) -> Painter:
        if self._painter is None:
            self._painter = Painter(self.visual_style, self.visual_style)
        return self._painter
