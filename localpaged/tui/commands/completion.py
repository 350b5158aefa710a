"""Slash commands while they are typed: which are meant, and keys that finish them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.keys import BY_SLASH, Action

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen


def matching(typed: str) -> Sequence[Action]:
    """Return the commands that what is typed may become; behind a finished name that one alone."""
    if not typed.startswith("/") or typed.startswith("//") or "\n" in typed:
        return ()
    name, space, _ = typed[1:].partition(" ")
    if space:
        action = BY_SLASH.get(name)
        return () if action is None or not action.argument else (action,)
    name = name.casefold()
    begins = [action for slash, action in BY_SLASH.items() if slash.startswith(name)]
    has = [a for slash, a in BY_SLASH.items() if name in slash and a not in begins]
    exact = [action for action in begins if action.slash == name]
    return (*exact, *(action for action in begins if action not in exact), *has)


class Completion(CommandGroup):
    """Offers commands over the prompt, and takes the keys that choose one. UI thread only.

    Invariant: `_offered` is what is shown; `_marked` indexes it while a name is being typed.
    """

    def __init__(self, app: LocalPagedApp, screen: ChatScreen) -> None:
        super().__init__(app, screen)
        self._offered: Sequence[Action] = ()
        self._marked: int | None = None
        self._has_moved = False
        self._is_closed = False
        self._prompt.completer = self.take_key

    def refresh(self) -> None:
        """The prompt's text changed: offer what it may become."""
        typed = self._prompt.text
        if not typed.startswith("/"):
            self._is_closed = False
        offered = () if self._is_closed else matching(typed)
        if offered != self._offered:
            self._has_moved = False
        is_name = " " not in typed
        marked = (self._marked or 0) if self._has_moved else 0
        self._show(offered, marked if offered and is_name else None)

    def close(self) -> bool:
        """Offer nothing for what is typed now; return whether something was offered."""
        was_open = bool(self._offered)
        self._is_closed = was_open
        self._show((), None)
        return was_open

    def take_key(self, key: str) -> bool:
        """Use a key of the prompt's; False when it means there what it always means."""
        marked = self._marked
        if marked is None or not self._prompt.selection.is_empty:
            return False
        if key in ("up", "down"):
            self._has_moved = True
            step = 1 if key == "down" else -1
            self._show(self._offered, (marked + step) % len(self._offered))
            return True
        action = self._offered[marked]
        if key == "tab" or (key == "enter" and self._prompt.text != f"/{action.slash}"):
            self.complete(action)
            return True
        return False

    def complete(self, action: Action) -> None:
        """Write the whole name, ready for what may stand behind it."""
        self._prompt.text = f"/{action.slash}{' ' if action.argument else ''}"
        self._prompt.move_cursor(self._prompt.document.end)
        self._screen.set_focus(self._prompt)

    def _show(self, offered: Sequence[Action], marked: int | None) -> None:
        self._offered, self._marked = offered, marked
        self._screen.suggestions.show(offered, marked)
