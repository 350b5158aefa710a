"""The ways of the chat that is shown, as a list to go to one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from localpaged.chat.branch_map import Stretch, stretches_of
from localpaged.chat.title import one_line
from localpaged.errors import LocalPagedError
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.history import HistoryCommands
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.keys import key_of
from localpaged.tui.screens.picker import Choice, PickerScreen
from localpaged.tui.session import SessionModel
from localpaged.tui.workers import begin

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen

LABEL_CHARS = 200
MAX_SHOWN_DEPTH = 8
_ROLES = {"user": "you: ", "system": "system: "}


class BranchMapCommands(CommandGroup):
    """Reads the tree of the current chat on a thread, and goes where it is told. UI thread only."""

    def __init__(self, app: LocalPagedApp, screen: ChatScreen, history: HistoryCommands) -> None:
        super().__init__(app, screen)
        self._history = history

    def show(self) -> None:
        """List every way of the chat; the chosen one is shown."""
        session = self._workspace.current
        if session.chat is None:
            self._app.tell("Nothing has been asked here yet.")
            return
        begin(self._app, lambda: self._show(session), name="branches", group="branches")

    async def _show(self, session: SessionModel) -> None:
        store = self._app.service.history.store
        try:
            whole = await asyncio.to_thread(store.whole_chat, session.id)
        except LocalPagedError as error:
            self._app.tell_error(error)
            return
        if session is not self._workspace.current or self._app.screen is not self._screen:
            return
        stretches = await asyncio.to_thread(stretches_of, whole)
        if len(stretches) < 2:
            again = key_of("regenerate")
            self._app.tell(f"This chat has one way. {again}, edits and forks make others.")
            return

        def chosen(message_hash: str | None) -> None:
            if message_hash is not None:
                self._try(lambda: self._history.open_at(whole.chat, message_hash))

        choices = [_choice(stretch, self._screen.glyphs) for stretch in stretches]
        at = next((at for at, stretch in enumerate(stretches) if stretch.is_tip), 0)
        self._app.push_screen(
            PickerScreen(choices, prompt="Which way? Type to narrow the list", at=at), chosen
        )


def _choice(stretch: Stretch, glyphs: Glyphs) -> Choice:
    """A row: how deep it is, who says what first, which version it is and how long it goes on."""
    depth = min(stretch.depth, MAX_SHOWN_DEPTH)
    fork = f"{'  ' * (depth - 1)}{glyphs.fork} " if depth else ""
    mark = f"{glyphs.unread} " if stretch.is_tip else ""
    first = stretch.first
    said = one_line(first.text[:LABEL_CHARS]) or "no word"
    count = stretch.num_messages
    parts = [f"{stretch.version}/{stretch.versions}"] if stretch.versions > 1 else []
    parts.append("1 message" if count == 1 else f"{grouped(count)} messages")
    parts += ["shown"] if stretch.is_shown else []
    label = f"{fork}{mark}{_ROLES.get(first.role, '')}{said}"
    return Choice(first.hash, label, f" {glyphs.dot} ".join(parts))
