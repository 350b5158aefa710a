"""A question that is answered with one line of text."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from localpaged.tui.compositor import Dialog
from localpaged.tui.widgets.line_input import LineInput


class AskTextScreen(Dialog[str | None]):
    """Dismisses with the text, or None when there is none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", show=False)]

    def __init__(self, question: str, *, hint: str) -> None:
        super().__init__()
        self._question = question
        self._hint = hint

    def compose(self) -> ComposeResult:
        """One input."""
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), classes="dialog-title")
            yield LineInput(compact=True)
            yield Static(Content(self._hint), classes="dialog-hint")

    def on_input_submitted(self, event: LineInput.Submitted) -> None:
        """An empty answer is none."""
        self.dismiss(event.value.strip() or None)

    def action_cancel(self) -> None:
        """Answer nothing."""
        self.dismiss(None)
