"""Compare: begin one from the chat that is shown, come back to an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from localpaged.chat.compare import BranchSpec, Comparison
from localpaged.errors import LocalPagedError
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.compare.asking import Asked, asked_for
from localpaged.tui.compare.model import CompareModel
from localpaged.tui.screens.compare import CompareScreen
from localpaged.tui.screens.picker import Choice, PickerScreen
from localpaged.tui.session import Draft

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen

BEGINNING = "/compare n=2 "
HOW = "Write your prompt after it. For more, write /compare n=4 t=0.2,0.7 and your prompt."


class CompareCommands(CommandGroup):
    """Opens the compare screen. UI thread only."""

    def __init__(self, app: LocalPagedApp, screen: ChatScreen, chats: ChatCommands) -> None:
        super().__init__(app, screen)
        self._chats = chats

    def begin(self) -> None:
        """Have what is typed answered twice; without text, offer the command to write it with."""
        draft = self._prompt.draft
        text = draft.full
        if text.startswith("/compare"):
            text = text.removeprefix("/compare")
        elif not text.strip():
            self._prompt.load(Draft(BEGINNING))
            self._screen.set_focus(self._prompt)
            self._app.tell(HOW, for_s=8.0)
            return
        if self.ask(text):
            self._prompt.load(Draft())
            self._prompt.add_sent(draft.full)

    def ask(self, argument: str) -> bool:
        """Begin a compare with the options and the prompt of a command."""
        try:
            asked = asked_for(argument)
        except LocalPagedError as error:
            self._app.tell_error(error)
            return False
        return self._try(lambda: self._start(asked))

    def show_new(self, prompt: str, specs: Sequence[BranchSpec], *, system: str = "") -> None:
        """Begin a compare from nothing."""
        compares = self._app.service.compares
        self._try(lambda: self._show(compares.start(prompt, specs, system=system)))

    def show_answer(self, chat_id: str) -> None:
        """Open the compare that a chat is an answer of, that answer selected."""
        compares = self._app.service.compares
        if (compare := compares.of_chat(chat_id)) is None:
            self._app.tell("The compare of that answer was deleted.")
            return
        self._try(lambda: self._show(compares.open(compare.id), selected=chat_id))

    def past(self) -> None:
        """Choose among earlier compares."""
        compares = self._app.service.compares
        choices = [
            Choice(
                compare.id,
                " ".join(compare.prompt.split()),
                f"{len(compare.chat_ids)} answers, {_day(compare.created_at)}",
            )
            for compare in compares.past()
        ]
        if not choices:
            self._app.tell("There is no compare yet.")
            return

        def chosen(compare_id: str | None) -> None:
            if compare_id is not None:
                self._try(lambda: self._show(compares.open(compare_id)))

        self._app.push_screen(PickerScreen(choices, prompt="Go to a compare"), chosen)

    def _start(self, asked: Asked) -> None:
        current = self._workspace.current
        chat = current.chat
        has_own = chat is not None and (chat.model or chat.system or chat.options != "{}")
        self._show(
            self._app.service.compares.start(
                asked.prompt,
                asked.specs,
                from_chat=current.id if current.entries or has_own else "",
                is_blind=asked.is_blind,
            )
        )

    def _show(self, comparison: Comparison, *, selected: str = "") -> bool:
        if not comparison.branches:
            self._app.tell("All answers of that compare were deleted.")
            return False
        model = CompareModel(self._app.service, comparison, watch=self._workspace.watch)
        model.select(next((n for n, p in enumerate(model.panes) if p.chat.id == selected), 0))

        def left(chat_id: str | None) -> None:
            # what was done to kept chats there is not in what was read of them before
            for pane in model.panes:
                self._workspace.unwatch(pane.session)
                if (session := self._workspace.find(pane.chat.id)) is not None:
                    session.is_loaded = False
                    self._transcript.forget(session)
            target = self._workspace.find(chat_id) if chat_id is not None else None
            if target is not None:
                self._chats.go_to(target)
            elif not self._workspace.current.is_loaded:
                self._workspace.open(self._workspace.current)
                self._screen.show_current()
            self._screen.redraw()

        self._app.push_screen(
            CompareScreen(self._app, self._workspace, self._screen.glyphs, model), left
        )
        return True


def _day(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s).strftime("%Y-%m-%d %H:%M")
