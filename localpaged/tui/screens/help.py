"""Every key and command, made from the one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localpaged.plain_text import visible
from localpaged.tui.compositor import Dialog
from localpaged.tui.keys import (
    ACTIONS,
    GROUPS,
    IN_BLOCKS,
    IN_COMPARE,
    IN_HISTORY,
    IN_LIST,
    IN_TOKENS,
    IN_TRANSCRIPT,
    Action,
)
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.paint import content_of
from localpaged.tui.screens.page import fit_page

CLOSING = "Every command also works as /name in the prompt. Esc closes."
KEY_CELLS = 25
LABEL_CELLS = 33
NO_REASONS: Mapping[str, str] = {}


_GROUP_OF_PART = {
    "transcript": IN_TRANSCRIPT,
    "list": IN_LIST,
    "blocks": IN_BLOCKS,
    "tokens": IN_TOKENS,
    "compare": IN_COMPARE,
    "history": IN_HISTORY,
}


class HelpScreen(Dialog[None]):
    """Closes with Esc, or what opened it. The keys of the part with the focus come first."""

    # the page scrolls with the keys at once
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,enter", "dismiss_help", "Close", show=False, priority=True),
        # the key that opened it, whichever the user gave it
        Binding("f1", "dismiss_help", id="help", show=False, priority=True),
    ]

    def __init__(
        self,
        focus: str = "prompt",
        *,
        actions: Sequence[Action] = ACTIONS,
        groups: Sequence[str] = GROUPS,
        closing: str = CLOSING,
        reasons: Mapping[str, str] = NO_REASONS,
    ) -> None:
        """`actions` are told in their `groups`, `closing` below them.

        `reasons` tell what cannot be done now, by action.
        """
        super().__init__()
        self._page = help_content(focus, actions=actions, groups=groups, reasons=reasons)
        self._last_line = closing

    def compose(self) -> ComposeResult:
        """One scrolling page."""
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content("Keys and commands"), classes="dialog-title")
            with VerticalScroll():
                yield Static(self._page)
            yield Static(Content(self._last_line), classes="dialog-hint")

    def on_resize(self) -> None:
        """The page scrolls where not all of it fits; the line below it stays in view."""
        fit_page(self)

    def action_dismiss_help(self) -> None:
        """Close."""
        self.dismiss(None)


def help_content(
    focus: str = "prompt",
    *,
    actions: Sequence[Action] = ACTIONS,
    groups: Sequence[str] = GROUPS,
    reasons: Mapping[str, str] = NO_REASONS,
) -> Content:
    """The table, group by group; that of the part with the `focus` first."""
    runs: list[Run] = []
    first = _GROUP_OF_PART.get(focus)
    for group in sorted(groups, key=lambda group: group != first):
        if runs:
            runs.append(Run("\n"))
        runs.append(Run(f"{group}\n", Role.ACCENT, STRONG))
        for action in actions:
            if action.group == group:
                runs.extend(_row(action, reasons.get(action.id, "")))
    return content_of(runs[:-1])


def _row(action: Action, reason: str) -> list[Run]:
    slash = f"/{action.slash}" if action.slash else ""
    key = f"{action.shown + ' ':<{KEY_CELLS}}"
    if reason:
        told = f"{key}{action.label}\n{'':<{KEY_CELLS}}{visible(reason)}\n"
        return [Run(told, Role.FAINT)]
    return [
        Run(key, Role.TEXT),
        Run(f"{action.label:<{LABEL_CELLS}}", Role.DIM),
        Run(slash, Role.FAINT),
        Run("\n"),
    ]
