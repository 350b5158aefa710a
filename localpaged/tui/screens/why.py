"""Why was this not cached? One answer's prompt explained."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localpaged.chat.cache_report import CacheReport
from localpaged.tui.compositor import Dialog
from localpaged.tui.memory.why import why_lines
from localpaged.tui.paint import content_of
from localpaged.tui.screens.page import fit_page


class WhyScreen(Dialog[None]):
    """Tells what a report says. Closes with the key that opened it, or Esc."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,w,q,enter", "leave", "Close", show=False, priority=True)
    ]

    def __init__(self, report: CacheReport) -> None:
        super().__init__()
        self._report = report
        self._text = Static()

    def compose(self) -> ComposeResult:
        """One scrolling text."""
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content("Why was this not cached?"), classes="dialog-title")
            with VerticalScroll():
                yield self._text
            yield Static(Content("Esc closes"), classes="dialog-hint")

    def on_resize(self) -> None:
        """Wrap at the width there is; the line below the page stays in view."""
        fit_page(self)
        self.call_after_refresh(self._write)

    def on_mount(self) -> None:
        """The dialog is as high as its text."""
        self._write()

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)

    def _write(self) -> None:
        cells = self._text.content_size.width or min(72, max(20, self.app.size.width * 9 // 10 - 6))
        lines = why_lines(self._report, cells)
        self._text.update(Content("\n").join([content_of(line.runs) for line in lines]))
