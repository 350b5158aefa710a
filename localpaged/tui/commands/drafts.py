"""Drafts: each chat keeps what is typed in it, on the disk a moment after the last key."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from localpaged.tui.commands.base import CommandGroup

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen

SAVE_AFTER_S = 1.0


class DraftCommands(CommandGroup):
    """Between prompt, session and history. UI thread only.

    Invariant: while `_due_s` is set the current session's draft is not saved yet.
    """

    def __init__(self, app: LocalPagedApp, screen: ChatScreen) -> None:
        super().__init__(app, screen)
        self._due_s: float | None = None

    def typed(self) -> bool:
        """Take what is typed into the session; return whether it is new."""
        draft = self._prompt.draft
        editing = self._workspace.current.editing
        if editing is not None:
            if draft == editing.draft:
                return False
            editing.draft = draft
            self._due_s = monotonic() + SAVE_AFTER_S
            return True
        if draft == self._workspace.current.draft:
            return False
        self._workspace.current.draft = draft
        self._due_s = monotonic() + SAVE_AFTER_S
        return True

    def keep(self) -> None:
        """Take what is typed into the session, and save it."""
        session = self._workspace.current
        if session.editing is not None:
            session.editing.draft = self._prompt.draft
        else:
            session.draft = self._prompt.draft
        self._due_s = None
        self._try(lambda: self._workspace.save_draft(session))

    def keep_if_due(self) -> None:
        """Save the draft when nothing was typed for a moment."""
        if self._due_s is not None and monotonic() >= self._due_s:
            self.keep()
