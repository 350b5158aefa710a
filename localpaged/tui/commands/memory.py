"""Memory: the blocks screen, pins of a chat, and why a prompt was not cached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.commands.compare import CompareCommands
from localpaged.tui.commands.memory_deeds import tell_pinned, tell_unpinned
from localpaged.tui.screens.blocks import BlocksScreen
from localpaged.tui.screens.stats import ChatStatsScreen
from localpaged.tui.screens.why import WhyScreen

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen

SYSTEM_WORD = "system"


class MemoryCommands(CommandGroup):
    """Acts on the engine's memory for the current chat. UI thread only."""

    def __init__(
        self, app: LocalPagedApp, screen: ChatScreen, chats: ChatCommands, compare: CompareCommands
    ) -> None:
        super().__init__(app, screen)
        self._chats = chats
        self._compare = compare

    def show_blocks(self) -> None:
        """Look at the blocks; come back to the chat that was chosen there."""

        def left(chat_id: str | None) -> None:
            session = self._workspace.find(chat_id) if chat_id else None
            if session is not None:
                self._chats.go_to(session)
            elif chat_id:
                self._compare.show_answer(chat_id)

        blocks = BlocksScreen(self._app, self._workspace, self._screen.glyphs)
        self._app.push_screen(blocks, left)

    def show_stats(self) -> None:
        """Look at speed, memory and chats as they were over the last minutes."""
        self._app.push_screen(ChatStatsScreen(self._app, self._screen.glyphs))

    def pin(self) -> None:
        """Keep the current chat's prompt so far in memory."""
        self._pin(is_system_only=False)

    def pin_part(self, part: str) -> bool:
        """Keep a part of the current chat's prompt: `system`, the system text. False: unknown."""
        if part != SYSTEM_WORD:
            self._app.tell(
                "/pin keeps the chat so far, /pin system its system text.", is_error=True
            )
            return False
        self._pin(is_system_only=True)
        return True

    def unpin(self) -> None:
        """Let what is kept of the current chat be evicted again."""
        if not self._workspace.current.id:
            self._app.tell("Nothing of this chat is pinned.")
            return

        def told(num_blocks: int) -> None:
            if num_blocks:
                tell_unpinned(self._app, num_blocks)
            else:
                self._app.tell("Nothing of this chat is pinned.")

        unpinned = self._app.service.memory.unpin_chat(self._workspace.current.id)
        self._app.awaited.when_done(unpinned, told, self._app.tell_error)

    def why(self) -> None:
        """Tell why the prompt of the answer at the cursor, or of the newest, was not cached."""
        answer = self._transcript.chosen_answer
        report = answer.cache_report if answer is not None else None
        if report is None:
            self._app.tell("It is not known how this prompt was read.")
            return
        self._app.push_screen(WhyScreen(report))

    def _pin(self, *, is_system_only: bool) -> None:
        if not self._workspace.current.id:
            self._app.tell("There is nothing to pin yet.")
            return
        pinned = self._app.service.memory.pin_chat(
            self._workspace.current.id, is_system_only=is_system_only
        )
        self._app.awaited.when_done(
            pinned, lambda pin: tell_pinned(self._app, pin), self._app.tell_error
        )
