"""Chats: new, go to, rename, delete and bring back; the list that shows them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from textual.actions import SkipAction

from localpaged.plain_text import visible
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.drafts import DraftCommands
from localpaged.tui.fork_tree import fork_runs
from localpaged.tui.screens.picker import TYPED, Choice, PickerScreen
from localpaged.tui.screens.rename import RenameScreen
from localpaged.tui.session import ChatState, Draft, SessionModel

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen

UNDO_S = 10.0


class ChatCommands(CommandGroup):
    """Decides which chat is shown. UI thread only.

    Invariant: `_is_undo_next` means that deleting `_deleted` was the last thing the user did.
    """

    def __init__(self, app: LocalPagedApp, screen: ChatScreen, drafts: DraftCommands) -> None:
        super().__init__(app, screen)
        self._drafts = drafts
        self._deleted: SessionModel | None = None
        self._undo_until_s = 0.0
        self._is_undo_next = False

    def typed(self) -> None:
        """The user wrote something: undo means that now."""
        self._is_undo_next = False

    def go_to(self, session: SessionModel) -> None:
        """Show another chat."""
        if session is self._workspace.current:
            return
        self._drafts.keep()
        if self._try(lambda: self._workspace.open(session)):
            self._screen.show_current()
            # another program may have written in it while something else was shown
            self._try(self._app.commands.branches.follow_others)

    def keep_draft(self) -> None:
        """Save what is typed before something else is shown."""
        self._drafts.keep()

    def new(self) -> None:
        """Show an empty chat."""
        self._drafts.keep()
        self._workspace.open_new()
        self._screen.show_current()
        self._screen.set_focus(self._prompt)

    def number(self, number: int) -> None:
        """Show the chat of that number in the list, counted from 1."""
        listed = self._workspace.listed
        if number <= len(listed):
            self.go_to(listed[number - 1])

    def step(self, step: int) -> None:
        """Show the chat that many places further down the list, around its ends."""
        listed = self._workspace.listed
        self.go_to(listed[(listed.index(self._workspace.current) + step) % len(listed)])

    def switch(self) -> None:
        """Choose a chat by typing a part of its title."""
        listed = self._workspace.listed
        # forks have the titles of where they come from until they say something
        glyphs = self._screen.glyphs
        choices = [
            Choice(
                str(number),
                "".join(run.text for run in fork_runs(session, glyphs)) + session.title,
                _state_note(session),
            )
            for number, session in enumerate(listed)
        ]

        def chosen(choice: str | None) -> None:
            if choice is None:
                return
            if choice.startswith(TYPED):
                self._app.commands.history.search(choice.removeprefix(TYPED))
            else:
                self.go_to(listed[int(choice)])

        self._app.push_screen(
            PickerScreen(choices, prompt="Go to a chat", otherwise="Search all texts for"), chosen
        )

    def toggle_list(self) -> None:
        """Show or hide the list; where there is no room for it, choose by typing."""
        screen = self._screen
        if screen.has_class("-narrow"):
            self.switch()
            return
        closed = screen.has_class("-docked") and not screen.has_class("-no-list")
        screen.set_class(closed, "-no-list")
        if screen.has_class("-overlay"):
            screen.toggle_class("-list-open")
        screen.redraw()
        if screen.sidebar.display:
            screen.set_focus(screen.sidebar)
        else:
            self._screen.set_focus(self._prompt)

    def leave_list(self) -> None:
        """Back to writing; a list that lies over the chat closes."""
        self._screen.remove_class("-list-open")
        self._screen.set_focus(self._prompt)
        self._screen.redraw()

    def rename(self, session: SessionModel) -> None:
        """Ask for another title."""

        def named(title: str | None) -> None:
            if title is not None:
                self.rename_to(session, title)

        self._app.push_screen(RenameScreen(session.title), named)

    def rename_to(self, session: SessionModel, title: str) -> bool:
        """Give a chat that title; return whether it has it."""
        is_done = self._try(lambda: self._workspace.rename(session, title))
        if is_done:
            self._screen.redraw()
        return is_done

    def delete(self, session: SessionModel) -> None:
        """Delete a chat; for a while it can be brought back."""
        if session.chat is None:
            self._prompt.load(Draft())
            return
        self._drafts.keep()
        if not self._try(lambda: self._workspace.delete(session)):
            return
        self._deleted, self._undo_until_s = session, monotonic() + UNDO_S
        self._is_undo_next = True
        self._screen.show_current()
        self._app.tell(f"Deleted “{visible(session.title)}”.  ^Z brings it back", for_s=UNDO_S)

    def undo(self) -> None:
        """Bring the deleted chat back."""
        session = self._deleted
        if session is None or monotonic() > self._undo_until_s:
            self._app.tell("There is nothing to bring back.")
            return
        self._drafts.keep()
        if self._try(lambda: self._workspace.restore(session)):
            self._deleted = None
            self._transcript.forget(session)
            self._screen.show_current()
            self._app.tell(f"“{visible(session.title)}” is back")

    def undo_key(self) -> None:
        """The undo key brings a chat back as long as deleting it was the last thing done."""
        if not self._is_undo_next or self._deleted is None or monotonic() > self._undo_until_s:
            raise SkipAction
        self._is_undo_next = False
        self.undo()


def _state_note(session: SessionModel) -> str:
    return "" if session.state is ChatState.IDLE else session.state.value
