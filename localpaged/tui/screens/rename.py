"""A new title for a chat."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from localpaged.plain_text import visible
from localpaged.tui.compositor import Dialog
from localpaged.tui.widgets.line_input import LineInput


class RenameScreen(Dialog[str | None]):
    """Dismisses with the title, or None when it is to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", show=False)]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = visible(title)

    def compose(self) -> ComposeResult:
        """One input."""
        with Vertical(classes="dialog"):
            yield Static(Content("Rename this chat"), classes="dialog-title")
            yield LineInput(self._title, compact=True, max_length=200)
            yield Static(Content("Enter saves, Esc leaves it"), classes="dialog-hint")

    def on_input_submitted(self, event: LineInput.Submitted) -> None:
        """An empty title changes nothing."""
        self.dismiss(event.value.strip() or None)

    def action_cancel(self) -> None:
        """Leave the title as it is."""
        self.dismiss(None)
