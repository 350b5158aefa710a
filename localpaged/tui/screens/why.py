"""Why was this not cached? One answer's prompt explained."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from localpaged.chat.cache_report import CacheReport
from localpaged.tui.memory.why import why_lines
from localpaged.tui.paint import content_of
from localpaged.tui.screens.page_dialog import PageDialog


class WhyScreen(PageDialog[None]):
    """Tells what a report says. Closes with the key that opened it, too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "leave", "Close", show=False, priority=True)
    ]

    def __init__(self, report: CacheReport) -> None:
        super().__init__("Why was this not cached?", "Esc closes")
        self._report = report

    def page(self, cells: int) -> Content:
        """See PageDialog."""
        lines = why_lines(self._report, cells)
        return Content("\n").join([content_of(line.runs) for line in lines])
