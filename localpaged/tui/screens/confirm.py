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
    """Asks whether to quit while `running` answers run. The app's quit key, once more, says yes."""

    def __init__(self, running: int) -> None:
        self._num_running = running
        super().__init__(*_quitting(running), yes="Quit", no="Stay")

    def follow(self, running: int) -> None:
        """Tell how many answers run now; the question stays, as an answer may be on its way."""
        if running == self._num_running or not self.is_mounted:
            return
        self._num_running = running
        question, detail = _quitting(running)
        self.query_one(".dialog-title", Static).update(Content(question))
        self.query_one(".dialog-detail", Static).update(Content(detail))


def _quitting(running: int) -> tuple[str, str]:
    if not running:
        return "No answer is running any more", "All that was answered is kept."
    is_one = running == 1
    return (
        "An answer is still running" if is_one else f"{running} answers are still running",
        f"Quitting stops {'it' if is_one else 'them'}. "
        "The text so far is kept and can be continued.",
    )
