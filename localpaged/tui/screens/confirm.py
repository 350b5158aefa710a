"""A question with two answers."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from localpaged.tui.compositor import Dialog


class ConfirmScreen(Dialog[bool]):
    """Dismisses with True for yes. `question` and `detail` are shown literally."""

    # Enter must never do harm by habit
    AUTO_FOCUS = "#no"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n,ctrl+c", "answer(False)", "No", show=False),
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("left,right", "other_button", "Other button", show=False),
    ]

    def __init__(self, question: str, detail: str, *, yes: str, no: str) -> None:
        super().__init__()
        self._question = question
        self._detail = detail
        self._yes = yes
        self._no = no

    def compose(self) -> ComposeResult:
        """The question, its detail, two buttons; the safe one has the focus."""
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), classes="dialog-title")
            if self._detail:
                yield Static(Content(self._detail), classes="dialog-detail")
            with Horizontal(classes="dialog-buttons"):
                yield Button(Content(self._yes), id="yes", compact=True)
                yield Button(Content(self._no), id="no", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A click or Enter on a button answers."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, is_yes: bool) -> None:
        """A key answers."""
        self.dismiss(is_yes)

    def action_other_button(self) -> None:
        """Move between the two buttons."""
        self.focus_next()


class QuitScreen(ConfirmScreen):
    """Asks whether to quit. The app's quit key, pressed once more, says yes."""
