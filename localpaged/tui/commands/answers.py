"""Answers: stop, continue, copy; the links in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from localpaged.plain_text import visible
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.keys import key_of
from localpaged.tui.markdown.blocks import code_blocks
from localpaged.tui.preferences import save_shows_thoughts
from localpaged.tui.screens.confirm import ConfirmScreen

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen
    from localpaged.tui.session import Answer, SessionModel

WEB_SCHEMES = ("http://", "https://")


class AnswerCommands(CommandGroup):
    """Acts on the answers of the current chat. UI thread only."""

    def __init__(self, app: LocalPagedApp, screen: ChatScreen, chats: ChatCommands) -> None:
        super().__init__(app, screen)
        self._chats = chats

    def stop(self) -> None:
        """Close the list, else stop the answer, else the import, else leave the selection, else go
        to the prompt.
        """
        if self._screen.has_class("-list-open"):
            self._chats.leave_list()
        elif self._workspace.current.open_answer is not None:
            self.stop_current()
        elif self._workspace.leave_import():
            self._screen.redraw()
        elif self._screen.selections:
            self._screen.clear_selection()
        else:
            self._screen.set_focus(self._prompt)

    def stop_current(self) -> None:
        """Stop the answer of the chat that is shown, and show at once that it is stopping."""
        if self._try(self._workspace.stop):
            self._transcript.advance(self._screen.moment)

    def resume(self) -> None:
        """Continue the last answer where it broke off; one that is stopping, after that."""
        current = self._workspace.current
        why_not = "There is nothing to continue."
        if current.open_answer is not None:
            stop, resume = key_of("stop"), key_of("resume")
            why_not = f"The answer is still running. {stop} stops it, then {resume} continues it."
        if self._try(lambda: self._workspace.resume(current), otherwise=why_not):
            self._transcript.advance(self._screen.moment)
            self._transcript.follow()
            self._screen.redraw()

    def resume_stopped(self, sessions: list[SessionModel]) -> None:
        """Continue what was asked to be continued while it was stopping."""
        for session in sessions:
            self._try(
                partial(self._workspace.resume, session),
                otherwise="There is nothing to continue: the answer was complete.",
            )

    def copy_answer(self) -> None:
        """Copy the newest answer, exactly as the model wrote it."""
        if (answer := self._answer_to_copy()) is not None:
            self._app.copy_text(answer.body, "answer")

    def copy_with_reasoning(self) -> None:
        """Copy the newest answer with what was thought before it, marks included."""
        if (answer := self._answer_to_copy()) is not None:
            what = "answer" if answer.thought is None else "answer and its reasoning"
            self._app.copy_text(answer.text, what)

    def toggle_thoughts(self) -> None:
        """Unfold or fold all reasoning; the choice is there again at the next start."""
        self._transcript.toggle_thoughts(self._screen.moment)
        try:
            save_shows_thoughts(self._transcript.folds.is_shown)
        except OSError as error:
            self._app.tell(f"The choice is not remembered: {error.strerror}.", is_error=True)

    def copy_code(self) -> None:
        """Copy the newest answer's last code block, without its fences."""
        answer = self._workspace.current.last_answer
        blocks = code_blocks(answer.body) if answer is not None else []
        if not blocks:
            self._app.tell("There is no code block to copy.")
            return
        self._app.copy_text(blocks[-1], "code block")

    def _answer_to_copy(self) -> Answer | None:
        """The newest answer; None, and told, while it has no text."""
        answer = self._workspace.current.last_answer
        if answer is not None and answer.text:
            return answer
        self._app.tell("There is no answer to copy yet.")
        return None

    def offer_link(self, href: str) -> None:
        """Open a web address after the user saw it in full; refuse every other kind."""
        shown = visible(href)
        if not href.lower().startswith(WEB_SCHEMES):
            self._app.tell(f"Not opened: {shown}. Only web addresses are.", is_error=True)
            return

        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._app.open_address(href)

        self._app.push_screen(
            ConfirmScreen("Open this address in the browser?", shown, yes="Open", no="Cancel"),
            answered,
        )

    def copy_message(self, text: str, what: str) -> None:
        """Copy what the transcript offers."""
        self._app.copy_text(text, what)
