"""Finding a text in the chat that is shown, and going from one place to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.screens.find import FindScreen
from localpaged.tui.transcript.find import FoundLine, first_line, needle_of, next_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen


class FindCommands(CommandGroup):
    """Moves the transcript to lines with a text. UI thread only."""

    def __init__(self, app: LocalPagedApp, screen: ChatScreen) -> None:
        super().__init__(app, screen)
        self._text = ""
        self._needles: Sequence[str] = ()

    def ask(self) -> None:
        """Ask what to look for."""

        def answered(text: str | None) -> None:
            if text is not None:
                self.find(text)

        self._app.push_screen(FindScreen(self._text), answered)

    def find(self, text: str) -> bool:
        """Go to the last place with `text` above the end of the view, else to the first below."""
        self._text, self._needles = text, (needle_of(text),)
        self._screen.set_focus(self._transcript)
        if self._needles == ("",):
            self._app.tell("There is nothing to look for.")
            return True
        below = self._transcript.last_in_view
        line = self._next(below, -1) or self._next(below, 1)
        if line is None:
            self._transcript.clear_found()
            self._tell_none()
        else:
            self._transcript.show_found(line)
        return True

    def show(self, entry: int, needles: Sequence[str]) -> None:
        """Go to the message with that number, where it has one of `needles`; n looks for them."""
        self._text, self._needles = " ".join(needles), tuple(needles)
        document = self._transcript.document
        self._transcript.show_found(first_line(document, entry, self._needles))
        self._screen.set_focus(self._transcript)

    def step(self, step: int) -> None:
        """Go to the next place below (1) or above (-1); around the ends of the chat."""
        if not any(self._needles):
            self.ask()
            return
        last = len(self._workspace.current.entries)
        begin = FoundLine(-1, 0) if step > 0 else FoundLine(last, 0)
        at = self._transcript.found or self._transcript.last_in_view
        line = self._next(at, step)
        if line is None:
            line = self._next(begin, step)
            if line is not None and line != at:
                self._app.tell("From the top again" if step > 0 else "From the end again")
        if line is None:
            self._tell_none()
        else:
            self._transcript.show_found(line)

    def _tell_none(self) -> None:
        self._app.tell(f"This chat has no “{self._text}”.")

    def _next(self, after: FoundLine, step: int) -> FoundLine | None:
        return next_line(self._transcript.document, self._needles, after, step)
