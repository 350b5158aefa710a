"""What each action of the key table does. Keys, palette and slash commands all end in `run`."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from textual.actions import SkipAction

from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible
from localpaged.tui.keys import BY_SLASH, commands
from localpaged.tui.screens.confirm import ConfirmScreen
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.screens.picker import Choice, PickerScreen
from localpaged.tui.screens.rename import RenameScreen
from localpaged.tui.session import Draft, SessionModel
from localpaged.tui.widgets.transcript import code_blocks

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen

UNDO_S = 10.0
LEAVE_AGAIN_S = 1.5
DRAFT_SAVE_S = 1.0


class Commands:
    """Acts on one chat screen and its workspace. UI thread only.

    Invariant: `deeds` has an entry for every action that is bound or a command.
    """

    def __init__(self, app: LocalPagedApp, screen: ChatScreen) -> None:
        self._app = app
        self._screen = screen
        self._workspace = screen.workspace
        self._prompt = screen.prompt
        self._transcript = screen.transcript
        self._deleted: SessionModel | None = None
        self._undo_until_s = 0.0
        self._is_undo_next = False
        self._leave_until_s = 0.0
        self._draft_due_s: float | None = None
        self.deeds: dict[str, Callable[[], None]] = {
            "leave": self.leave,
            "new_chat": self.new_chat,
            "switch_chat": self.switch_chat,
            "previous_chat": lambda: self._step(-1),
            "next_chat": lambda: self._step(1),
            "sidebar": self.sidebar,
            "rename": lambda: self.rename(self._workspace.current),
            "delete": lambda: self.delete(self._workspace.current),
            "undo": self.undo,
            "stop": self.stop,
            "resume": self.resume,
            "copy": self.copy_answer,
            "copy_code": self.copy_code,
            "newest": lambda: self._transcript.follow(),
            "palette": self.palette,
            "help": lambda: self._show_help(),
            "theme": self._app.toggle_theme,
            "quit": self._app.ask_to_quit,
        }

    def run(self, action_id: str) -> None:
        """Do what the table calls `action_id`."""
        self.deeds[action_id]()

    # writing

    def submit(self, text: str) -> None:
        """Send a message, or run the slash command that it is."""
        if text.startswith("/") and "\n" not in text:
            if not text.startswith("//"):
                self._slash(text)
                return
            text = text[1:]
        if self._workspace.engine.failure is not None:
            self._app.tell("There is no model to answer. Your text stays here.", is_error=True)
            return
        if not self._try(lambda: self._workspace.send(text)):
            return
        self._prompt.load(Draft())
        self._prompt.add_sent(text)
        self.keep_draft()
        self._transcript.advance(self._screen.moment)
        self._transcript.follow()
        self._screen.redraw()

    def typed(self) -> None:
        """The draft changed: keep it in the session, on the disk a moment later."""
        draft = self._prompt.draft
        if draft != self._workspace.current.draft:
            self._workspace.current.draft = draft
            self._draft_due_s = monotonic() + DRAFT_SAVE_S
            self._is_undo_next = False

    def keep_draft(self) -> None:
        """Take what is typed into the session, and save it."""
        session = self._workspace.current
        session.draft = self._prompt.draft
        self._draft_due_s = None
        self._try(lambda: self._workspace.save_draft(session))

    def keep_draft_if_due(self) -> None:
        """Save the draft when nothing was typed for a moment."""
        if self._draft_due_s is not None and monotonic() >= self._draft_due_s:
            self.keep_draft()

    def _slash(self, text: str) -> None:
        name, _, argument = text[1:].partition(" ")
        action = BY_SLASH.get(name)
        if action is None:
            self._app.tell(
                f"There is no command /{name}. //{name} sends it as text.", is_error=True
            )
            return
        self._prompt.load(Draft())
        if action.id == "rename" and argument.strip():
            self._rename_to(self._workspace.current, argument.strip())
        else:
            self.run(action.id)

    # chats

    def go_to(self, session: SessionModel) -> None:
        """Show another chat."""
        if session is self._workspace.current:
            return
        self.keep_draft()
        if self._try(lambda: self._workspace.open(session)):
            self._screen.show_current()

    def new_chat(self) -> None:
        """Show an empty chat."""
        self.keep_draft()
        self._workspace.open_new()
        self._screen.show_current()
        self._prompt.focus()

    def number(self, number: int) -> None:
        """Show the chat of that number in the list, counted from 1."""
        listed = self._workspace.listed
        if number <= len(listed):
            self.go_to(listed[number - 1])

    def _step(self, step: int) -> None:
        listed = self._workspace.listed
        self.go_to(listed[(listed.index(self._workspace.current) + step) % len(listed)])

    def switch_chat(self) -> None:
        """Choose a chat by typing a part of its title."""
        listed = self._workspace.listed
        choices = [
            Choice(str(number), session.title, _state_note(session))
            for number, session in enumerate(listed)
        ]

        def chosen(choice: str | None) -> None:
            if choice is not None:
                self.go_to(listed[int(choice)])

        self._app.push_screen(PickerScreen(choices, prompt="Go to a chat"), chosen)

    def sidebar(self) -> None:
        """Show or hide the list; where there is no room for it, choose by typing."""
        screen = self._screen
        if screen.has_class("-narrow"):
            self.switch_chat()
            return
        closed = screen.has_class("-docked") and not screen.has_class("-no-list")
        screen.set_class(closed, "-no-list")
        if screen.has_class("-overlay"):
            screen.toggle_class("-list-open")
        screen.redraw()
        if screen.sidebar.display:
            screen.sidebar.focus()
        else:
            self._prompt.focus()

    def leave_sidebar(self) -> None:
        """Back to writing; a list that lies over the chat closes."""
        self._screen.remove_class("-list-open")
        self._prompt.focus()
        self._screen.redraw()

    def rename(self, session: SessionModel) -> None:
        """Ask for another title."""

        def named(title: str | None) -> None:
            if title is not None:
                self._rename_to(session, title)

        self._app.push_screen(RenameScreen(session.title), named)

    def _rename_to(self, session: SessionModel, title: str) -> None:
        if self._try(lambda: self._workspace.rename(session, title)):
            self._screen.redraw()

    def delete(self, session: SessionModel) -> None:
        """Delete a chat; for a while it can be brought back."""
        if session.chat is None:
            self._prompt.load(Draft())
            return
        self.keep_draft()
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
        self.keep_draft()
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

    # answers

    def stop(self) -> None:
        """Close the list, else stop the answer, else leave the selection, else go to the prompt."""
        if self._screen.has_class("-list-open"):
            self.leave_sidebar()
        elif self._workspace.current.open_answer is not None:
            self._try(self._workspace.stop)
        elif self._screen.selections:
            self._screen.clear_selection()
        else:
            self._prompt.focus()

    def resume(self) -> None:
        """Continue the last answer where it broke off."""
        if self._try(self._workspace.continue_last, otherwise="There is nothing to continue."):
            self._transcript.advance(self._screen.moment)
            self._transcript.follow()
            self._screen.redraw()

    def copy_answer(self) -> None:
        """Copy the newest answer, exactly as the model wrote it."""
        answer = self._workspace.current.last_answer
        if answer is None or not answer.text:
            self._app.tell("There is no answer to copy yet.")
            return
        self._app.copy_text(answer.text, "answer")

    def copy_code(self) -> None:
        """Copy the newest answer's last code block, without its fences."""
        answer = self._workspace.current.last_answer
        blocks = code_blocks(answer.text) if answer is not None else []
        if not blocks:
            self._app.tell("There is no code block to copy.")
            return
        self._app.copy_text(blocks[-1], "code block")

    def offer_link(self, href: str) -> None:
        """Open a web address after the user saw it in full; refuse every other kind."""
        shown = visible(href)
        if not href.lower().startswith(("http://", "https://")):
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

    # application

    def palette(self) -> None:
        """Every command, narrowed by typing."""
        choices = [
            Choice(action.id, action.label, action.shown or f"/{action.slash}")
            for action in commands()
            if action.id != "palette"
        ]

        def chosen(action_id: str | None) -> None:
            if action_id is not None:
                self.run(action_id)

        self._app.push_screen(PickerScreen(choices, prompt="What would you like to do?"), chosen)

    def _show_help(self) -> None:
        self._app.push_screen(HelpScreen())

    def leave(self) -> None:
        """The least destructive first: copy, stop, put the draft aside, offer to quit."""
        selected = self._screen.get_selected_text() or self._prompt.selected_text
        if selected:
            self._app.copy_text(selected, "selection")
            self._screen.clear_selection()
        elif self._workspace.current.open_answer is not None:
            self._try(self._workspace.stop)
        elif self._prompt.text:
            self._prompt.put_aside()
            self._app.tell("Draft put aside, Up brings it back")
        elif monotonic() <= self._leave_until_s:
            self._app.ask_to_quit()
        else:
            self._leave_until_s = monotonic() + LEAVE_AGAIN_S
            self._app.tell("Press ^C again to quit", for_s=LEAVE_AGAIN_S)

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


def _state_note(session: SessionModel) -> str:
    return "" if session.state.value == "idle" else session.state.value
