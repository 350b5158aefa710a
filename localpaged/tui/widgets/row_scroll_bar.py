"""A scrollbar beside rows that grow: it moves with each of them, so it has to be cheap."""

from __future__ import annotations

from typing import Any

from rich.segment import Segment
from textual.geometry import Region
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

from localpaged.tui.widgets.bare_rows import finished


class RowScrollBar(ScrollBar):
    """Textual's vertical scrollbar, one cell wide, painted past its styling row by row.

    A bar has three kinds of rows and its two ends, and fifty rows that are alike are one strip.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._rows: list[Strip] = []
        self._painted: tuple[object, ...] = ()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint rows of the bar."""
        made = self.render()
        width, height = self.size
        if not isinstance(made, ScrollBarRender) or width != 1:
            return super().render_lines(crop)
        painted = (height, made.virtual_size, made.window_size, made.position, made.style)
        if painted != self._painted:
            self._painted, self._rows = painted, self._paint(made, height)
        return finished(self, self._rows[crop.y : crop.bottom], crop)

    def _paint(self, made: ScrollBarRender, height: int) -> list[Strip]:
        style = self.app.console.get_style(made.style)
        assert style.color is not None and style.bgcolor is not None, "a bar has both"
        bar = made.render_bar(
            size=height,
            virtual_size=made.virtual_size,
            window_size=made.window_size,
            position=made.position,
            back_color=style.bgcolor,
            bar_color=style.color,
        )
        strips: dict[int, Strip] = {}
        rows = [segment for segment in bar.segments if isinstance(segment, Segment)]
        return [strips.setdefault(id(row), Strip([row], 1)) for row in rows]
