"""A dialog that is one page of text: a title above it, how it is left below."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localpaged.tui.compositor import Dialog
from localpaged.tui.screens.page import fit_page

Result = TypeVar("Result")


class PageDialog(Dialog[Result | None]):
    """Shows what `page` returns, written anew at each width. Esc closes it with None."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "leave", "Close", show=False, priority=True)
    ]

    def __init__(self, heading: str, way_out: str) -> None:
        super().__init__()
        self._heading = heading
        self._way_out = way_out
        self._text = Static()

    def page(self, cells: int) -> Content:
        """Return the text for a width."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """One scrolling text."""
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content(self._heading), classes="dialog-title")
            with VerticalScroll():
                yield self._text
            yield Static(Content(self._way_out), classes="dialog-hint")

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
        self._text.update(self.page(cells))
