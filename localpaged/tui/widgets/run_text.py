"""Styled text of any length as a part of a page that scrolls: only rows in view are painted."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from localpaged.tui.markdown.line import Line, Run
from localpaged.tui.markdown.wrap import wrap_runs
from localpaged.tui.paint import Painter

KEPT_WIDTHS = 2


class RunText(Widget):
    """Draws runs wrapped at words. UI thread only.

    Invariant: `_wrapped_at` has the runs' lines at the widths that were asked for last. A layout
    asks for two, with a scrollbar beside the text and without.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = "RunText { width: 1fr; height: auto; }"

    def __init__(self, runs: Sequence[Run], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._runs = runs
        self._wrapped_at: dict[int, Sequence[Line]] = {}
        self._painter: Painter | None = None

    @property
    def plain(self) -> str:
        """The text, without looks."""
        return "".join(run.text for run in self._runs)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows the text has at a width."""
        return len(self._wrapped(width))

    def render_line(self, y: int) -> Strip:
        """Paint one row."""
        cells = self.content_size.width
        lines = self._wrapped(cells)
        if self._painter is None:
            ground = self.get_visual_style()
            self._painter = Painter(ground, ground)
        line = lines[y] if y < len(lines) else Line(())
        return self._painter.strip(line, width=cells, margin=0, column=cells, y=y)

    def notify_style_update(self) -> None:
        """The theme or a style changed: paint anew."""
        super().notify_style_update()
        self._painter = None

    def _wrapped(self, cells: int) -> Sequence[Line]:
        lines = self._wrapped_at.get(cells)
        if lines is None:
            if len(self._wrapped_at) >= KEPT_WIDTHS:
                self._wrapped_at.clear()
            lines = self._wrapped_at[cells] = wrap_runs(self._runs, cells)
        return lines
