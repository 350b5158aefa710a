"""A list to choose from by typing: the command palette and the chat switcher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from localpaged.plain_text import visible
from localpaged.tui.compositor import Dialog
from localpaged.tui.markdown.line import Role, Run
from localpaged.tui.paint import cells_of, content_of
from localpaged.tui.shortened import shortened
from localpaged.tui.widgets.line_input import LineInput

MAX_SHOWN = 200
LABEL_CELLS = 26
"""What a long note leaves of a row for its label."""
# the id of the row that stands for what was typed begins with it
TYPED = "?"


@dataclass(frozen=True, slots=True)
class Choice:
    """One row: what it is called, and a word on it at the right. Both are shown literally.

    `is_off`: it cannot be done now, and the note says why. `other_names` find it as well.
    """

    id: str
    label: str
    note: str = ""
    is_off: bool = False
    other_names: str = ""


class PickerScreen(Dialog[str | None]):
    """Dismisses with the id of a choice, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "move(8)", "Page down", show=False, priority=True),
        Binding("pageup", "move(-8)", "Page up", show=False, priority=True),
    ]

    def __init__(
        self, choices: Sequence[Choice], *, prompt: str, otherwise: str = "", at: int = 0
    ) -> None:
        """With `otherwise` what is typed is a choice, too: the last row, whose id begins with ?.

        The choice `at` is the one that Enter takes at first.
        """
        super().__init__()
        self._at = at
        self._otherwise = otherwise
        self._choices = choices
        self._shown: list[Choice] = []
        self._prompt = prompt

    def compose(self) -> ComposeResult:
        """An input above the list it narrows."""
        with Vertical(classes="dialog dialog-picker"):
            yield LineInput(placeholder=self._prompt, compact=True, select_on_focus=False)
            options = OptionList(compact=True, markup=False)
            options.can_focus = False
            yield options
            yield Static(Content("Nothing matches"), classes="dialog-hint", id="nothing")

    def on_resize(self) -> None:
        """Rows are as wide as the list, once it is laid out. Everything is offered at first."""
        self._narrow(self.query_one(LineInput).value)
        self.call_after_refresh(lambda: self._narrow(self.query_one(LineInput).value))

    def on_input_changed(self, event: LineInput.Changed) -> None:
        """Typing narrows the list."""
        self._narrow(event.value)

    def on_input_submitted(self) -> None:
        """Enter takes the highlighted row."""
        highlighted = self.query_one(OptionList).highlighted
        if highlighted is not None:
            self.dismiss(self._shown[highlighted].id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click takes a row."""
        self.dismiss(self._shown[event.option_index].id)

    def action_move(self, step: int) -> None:
        """Move the highlight while the input keeps the focus."""
        options = self.query_one(OptionList)
        if self._shown:
            at = options.highlighted or 0
            options.highlighted = max(0, min(len(self._shown) - 1, at + step))

    def action_cancel(self) -> None:
        """Choose nothing."""
        self.dismiss(None)

    def _narrow(self, typed: str) -> None:
        self._shown = _matching(self._choices, typed)[:MAX_SHOWN]
        if self._otherwise and typed.strip():
            label = f"{self._otherwise} “{typed.strip()}”"
            self._shown.append(Choice(f"{TYPED}{typed.strip()}", label))
        options = self.query_one(OptionList)
        width = max(20, options.scrollable_content_region.width - 2)
        options.clear_options()
        options.add_options([Option(_row(choice, width)) for choice in self._shown])
        if self._shown:
            at = 0 if typed.strip() else self._at
            options.highlighted = min(at, len(self._shown) - 1)
        self.query_one("#nothing").display = not self._shown


def _matching(choices: Sequence[Choice], typed: str) -> list[Choice]:
    if not typed.strip():
        return list(choices)
    matcher = Matcher(typed.strip())
    scored = [(_score(matcher, choice), choice) for choice in choices]
    return [choice for score, choice in sorted(scored, key=lambda pair: -pair[0]) if score > 0]


def _score(matcher: Matcher, choice: Choice) -> float:
    by_text = matcher.match(f"{choice.label} {choice.note}")
    return max(by_text, matcher.match(choice.other_names)) if choice.other_names else by_text


def _row(choice: Choice, width: int) -> Content:
    told = visible(choice.note)
    if cell_len(told) > width - LABEL_CELLS:
        told = shortened(told, max(2, width - LABEL_CELLS), "…")
    note = Run(told, Role.FAINT)
    room = max(2, width - cells_of([note]) - 1)
    label = visible(choice.label)
    if cell_len(label) > room:
        label = shortened(label, room, "…")
    label = set_cell_size(label, room)
    return content_of([Run(label, Role.FAINT if choice.is_off else Role.TEXT), Run(" "), note])
