"""What all groups of commands share: the app, the chat screen, and how a refusal is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from localpaged.errors import LocalPagedError

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen


class CommandGroup:
    """Acts on one chat screen and its workspace. UI thread only."""

    def __init__(self, app: LocalPagedApp, screen: ChatScreen) -> None:
        self._app = app
        self._screen = screen
        self._workspace = screen.workspace
        self._prompt = screen.prompt
        self._transcript = screen.transcript

    def _try(self, deed: Callable[[], object], *, otherwise: str = "") -> bool:
        """Call the service; tell what it refuses. False as well when `deed` returns False."""
        try:
            done = deed() is not False
        except LocalPagedError as error:
            self._app.tell_error(error)
            return False
        if not done and otherwise:
            self._app.tell(otherwise)
        return done
