"""The history screen, and opening what was found there; putting chats away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.plain_text import visible
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.commands.compare import CompareCommands
from localpaged.tui.commands.finding import FindCommands
from localpaged.tui.commands.history_deeds import HistoryDeeds
from localpaged.tui.commands.transfer import TransferCommands
from localpaged.tui.screens.history import HistoryScreen

if TYPE_CHECKING:
    from localpaged.store.rows import Chat
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.history.items import HistoryItem
    from localpaged.tui.screens.chat import ChatScreen
    from localpaged.tui.session import SessionModel


class HistoryCommands(CommandGroup):
    """Between the history and the chat that is shown. UI thread only."""

    def __init__(
        self, app: LocalPagedApp, screen: ChatScreen, chats: ChatCommands, compare: CompareCommands
    ) -> None:
        super().__init__(app, screen)
        self._chats = chats
        self._compare = compare
        self.finding = FindCommands(app, screen)
        self.transfer = TransferCommands(app, screen, chats)
        self._deeds = HistoryDeeds(
            app,
            screen.workspace,
            export=self.transfer.export,
            show_current=screen.show_current,
        )

    def open(self) -> None:
        """Show every chat, and search."""
        self.search("")

    def search(self, query: str) -> bool:
        """Show what a search finds, to choose from."""
        self._chats.keep_draft()

        def chosen(item: HistoryItem | None) -> None:
            self._screen.redraw()
            if item is not None:
                self._try(lambda: self.open_item(item))

        history = self._app.service.history
        self._app.push_screen(
            HistoryScreen(history, self._deeds, self._screen.glyphs, query=visible(query)), chosen
        )
        return True

    def open_item(self, item: HistoryItem) -> None:
        """Show a chat, at the message that was found. A deleted chat is restored first.

        An answer that was not kept is shown in its compare.
        """
        service, chat = self._app.service, item.chat
        if chat.is_hidden:
            self._compare.show_answer(chat.id)
            return
        if chat.deleted_at is not None:
            chat = service.restore(chat.id)
            self._workspace.refresh()
            self._app.tell(f"“{visible(chat.title)}” is back")
        if item.message_hash is None:
            self._show(self._deeds.session_of(chat))
        else:
            self.open_at(chat, item.message_hash, item.found)

    def open_at(self, chat: Chat, message_hash: str, found: tuple[str, ...] = ()) -> None:
        """Show a chat at a message, on whatever way that is, with what was `found` marked.

        Raises NotInHistory, and ChatError while the chat answers on another way.
        """
        history = self._app.service.history
        session = self._deeds.session_of(chat)
        tip = history.store.chat(chat.id).tip_hash
        if history.show(chat.id, message_hash).tip_hash != tip:
            session.is_loaded = False
            self._transcript.forget(session)
        self._show(session)
        self._reveal(chat.id, message_hash, found)

    def archive(self, session: SessionModel) -> None:
        """Put a chat away; it stays where a search finds it."""
        if session.chat is None:
            self._app.tell("There is no chat to archive yet.")
            return
        self._chats.keep_draft()
        self._deeds.run("archive", session.chat, self._screen.redraw)

    def _show(self, session: SessionModel) -> None:
        if session is self._workspace.current and not session.is_loaded:
            self._workspace.open(session)
            self._screen.show_current()
        else:
            self._chats.go_to(session)

    def _reveal(self, chat_id: str, message_hash: str, needles: tuple[str, ...]) -> None:
        keys = [exchange.key for exchange in self._app.service.transcript(chat_id)]
        if message_hash not in keys:
            return
        session = self._workspace.current
        if len(session.entries) != len(keys):
            # another program went on with the chat since it was read
            session.is_loaded = False
            self._transcript.forget(session)
            self._show(session)
        self._screen.call_after_refresh(self.finding.show, keys.index(message_hash), needles)
