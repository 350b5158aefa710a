"""Every key and command, made from the one table."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from localpaged.tui.keys import ACTIONS, GROUPS, Action
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.paint import content_of

KEY_CELLS = 25
LABEL_CELLS = 33


class HelpScreen(ModalScreen[None]):
    """Closes with the key that opened it, or Esc."""

    # the page scrolls with the keys at once
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,enter", "dismiss_help", "Close", show=False, priority=True)
    ]

    def compose(self) -> ComposeResult:
        """One scrolling page."""
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content("Keys and commands"), classes="dialog-title")
            with VerticalScroll():
                yield Static(help_content())
            yield Static(
                Content("Every command also works as /name in the prompt. Esc closes."),
                classes="dialog-hint",
            )

    def action_dismiss_help(self) -> None:
        """Close."""
        self.dismiss(None)


def help_content() -> Content:
    """The table, group by group."""
    runs: list[Run] = []
    for group in GROUPS:
        if runs:
            runs.append(Run("\n"))
        runs.append(Run(f"{group}\n", Role.ACCENT, STRONG))
        for action in ACTIONS:
            if action.group == group:
                runs.extend(_row(action))
    return content_of(runs[:-1])


def _row(action: Action) -> list[Run]:
    slash = f"/{action.slash}" if action.slash else ""
    return [
        Run(f"{action.shown:<{KEY_CELLS}}", Role.TEXT),
        Run(f"{action.label:<{LABEL_CELLS}}", Role.DIM),
        Run(slash, Role.FAINT),
        Run("\n"),
    ]
