"""Looking at an answer token by token, and going on from one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.chat.prompt_text import PromptText
from localpaged.chat.token_view import TokenView
from localpaged.engine.events import PrefillEvent
from localpaged.errors import LocalPagedError
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.screens.prompt_text import PromptTextScreen
from localpaged.tui.screens.tokens import TokenFork, TokenScreen
from localpaged.tui.session import Answer

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen


class TokenCommands(CommandGroup):
    """Opens the token view on answers of the current chat. UI thread only."""

    def __init__(self, app: LocalPagedApp, screen: ChatScreen, chats: ChatCommands) -> None:
        super().__init__(app, screen)
        self._chats = chats

    def show(self) -> None:
        """Measure the answer at the transcript's cursor, else the newest, and show it."""
        answer = self._answer()
        if answer is None:
            self._app.tell("There is no answer to look at yet.")
            return
        if not answer.turn.id:
            self._app.tell(
                "The model of this answer is not known any more, so its tokens are not either."
            )
            return
        screen = TokenScreen(self._screen.glyphs, tell=self._app.tell)

        def shown(view: TokenView) -> None:
            # the help may lie over it
            if screen in self._app.screen_stack:
                screen.show(view)

        def failed(error: LocalPagedError) -> None:
            while screen in self._app.screen_stack and self._app.screen is not screen:
                self._app.pop_screen()
            if self._app.screen is screen:
                screen.dismiss(None)
            self._app.tell_error(error)

        def read(event: PrefillEvent) -> None:
            screen.note_read(event)
            self._app.nudge()

        measured = self._app.service.tokens.view(answer.turn.id, told=read)

        def left(fork: TokenFork | None) -> None:
            measured.cancel()
            self._left(fork)

        self._app.push_screen(screen, left)
        self._app.awaited.when_done(measured, shown, failed)

    def show_prompt(self) -> None:
        """Show what the model read before that answer, or reads for it now."""
        answer = self._answer()
        if answer is None or not answer.turn.id:
            self._app.tell("There is no answer whose prompt could be shown.")
            return

        def shown(prompt: PromptText) -> None:
            if self._app.screen is self._screen:
                self._app.push_screen(PromptTextScreen(prompt))

        told = self._app.service.tokens.prompt(answer.turn.id)
        self._app.awaited.when_done(told, shown, self._app.tell_error)

    def _answer(self) -> Answer | None:
        session = self._workspace.current
        entry = self._transcript.marked_entry if self._transcript.has_focus else None
        if entry is not None and entry < len(session.entries):
            # at a question, its answer is meant
            for candidate in session.entries[entry : entry + 2]:
                if isinstance(candidate, Answer):
                    return candidate
        return session.last_answer

    def _left(self, fork: TokenFork | None) -> None:
        if fork is not None:
            self._try(lambda: self._go_on(fork))

    def _go_on(self, fork: TokenFork) -> None:
        chat = self._app.service.fork_at_token(fork.turn_id, fork.num_tokens, fork.next_token_id)
        self._workspace.refresh()
        session = self._workspace.find(chat.id)
        if session is not None:
            self._chats.go_to(session)
            self._transcript.follow()
