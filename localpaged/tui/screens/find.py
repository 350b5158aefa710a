"""What is looked for in the chat that is shown."""

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


class FindScreen(Dialog[str | None]):
    """Dismisses with a text that is not empty, or None. It lies low: the chat stays in view."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", show=False)]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = visible(text)

    def compose(self) -> ComposeResult:
        """One input, with what was looked for last."""
        with Vertical(classes="dialog dialog-low"):
            yield LineInput(self._text, placeholder="Find in this chat", compact=True)
            yield Static(
                Content("Enter finds, then n and N step, Esc cancels"), classes="dialog-hint"
            )

    def on_input_submitted(self, event: LineInput.Submitted) -> None:
        """Nothing typed finds nothing."""
        self.dismiss(event.value if event.value.strip() else None)

    def action_cancel(self) -> None:
        """Look for nothing."""
        self.dismiss(None)
