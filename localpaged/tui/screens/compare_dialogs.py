"""What lies over the compare screen: the differences of two answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from localpaged.tui.compositor import Dialog
from localpaged.tui.markdown.line import Run
from localpaged.tui.paint import content_of
from localpaged.tui.screens.page import fit_page
from localpaged.tui.widgets.run_text import RunText


class PageScreen(Dialog[None]):
    """A page of text to scroll; closes with Esc and with the key that opened it."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,d", "close", "Close", show=False, priority=True)
    ]

    def __init__(self, title: Sequence[Run], body: Sequence[Run], hint: Sequence[Run]) -> None:
        super().__init__()
        self._parts = (title, body, hint)

    def compose(self) -> ComposeResult:
        """Title, a scrolling body, a hint."""
        title, body, hint = self._parts
        with Vertical(classes="dialog dialog-wide dialog-page"):
            yield Static(content_of(title), classes="dialog-title")
            with VerticalScroll():
                yield RunText(body)
            yield Static(content_of(hint), classes="dialog-hint")

    def on_resize(self) -> None:
        """The line below the page stays in view."""
        fit_page(self)

    @property
    def plain(self) -> str:
        """The text of the body."""
        return self.query_one(RunText).plain

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)
