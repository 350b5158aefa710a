"""Going back in a chat: answer again, edit as a branch, fork, go through the versions of a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible
from localpaged.store.rows import Exchange
from localpaged.tui.commands.answers import AnswerCommands
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.session import Answer, Draft, Editing, Question, SessionModel

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen


class BranchCommands(CommandGroup):
    """Moves the current chat to other ways of the message tree. UI thread only.

    Invariant: after every deed the session has what the history has. `entry` counts the messages
    of the session; None is the message that is meant without a cursor.
    """

    def __init__(
        self,
        app: LocalPagedApp,
        screen: ChatScreen,
        chats: ChatCommands,
        answers: AnswerCommands,
    ) -> None:
        super().__init__(app, screen)
        self._chats = chats
        self._answers = answers

    @property
    def _service(self) -> ChatService:
        return self._app.service

    @property
    def _current(self) -> SessionModel:
        return self._workspace.current

    def go(self, way: str, entry: int | None) -> None:
        """Go a way that the transcript offers."""
        match way:
            case "edit":
                self.edit(entry)
            case "regenerate":
                self.regenerate(entry)
            case "fork":
                self.fork(entry)
            case _:
                self.show_version(1 if way == "newer" else -1, entry)

    # another answer

    def regenerate_marked(self) -> None:
        """Answer again, at the cursor of the transcript if that is in use."""
        self.regenerate(self._marked)

    def edit_marked(self) -> None:
        """Edit the message at the cursor, else the newest one."""
        self.edit(self._marked)

    def fork_marked(self) -> None:
        """Fork at the message at the cursor, else at the end."""
        self.fork(self._marked)

    @property
    def _marked(self) -> int | None:
        """The cursor counts while the transcript is in use."""
        return self._transcript.marked_entry if self._transcript.has_focus else None

    def regenerate(self, entry: int | None = None) -> None:
        """Have a question answered once more; the answer that is there stays as a version."""
        session = self._current
        index = _answer_at(session, entry)
        if index is None:
            self._app.tell("There is no answer to make anew yet.")
            return
        line = self._line(session, index)
        if line is not None and self._try(lambda: self._answer_again(session, index, line)):
            self._answered(session)

    def _answer_again(self, session: SessionModel, index: int, line: Exchange) -> None:
        if line.turn is not None:
            self._service.regenerate(line.turn.id, chat_id=session.id)
            return
        # nobody knows any more what made the answer: its question is asked once more
        question = self._service.transcript(session.id)[index - 1]
        if question.message is not None:
            self._service.edit(session.id, question.key, question.message.text)

    def _answered(self, session: SessionModel) -> None:
        self._workspace.refresh()
        self.reshow(session)
        self._transcript.follow()
        self._screen.redraw()

    # another question

    def edit(self, entry: int | None = None) -> None:
        """Load a message into the prompt; sent, it is a version of its own."""
        session = self._current
        index = _question_at(session, entry)
        if index is None:
            self._app.tell("There is no message of yours to edit yet.")
            return
        line = self._line(session, index)
        if line is None or line.message is None:
            return
        if line.turn is not None or line.message.hash.startswith("waiting:"):
            self._app.tell("The message waits for its turn; edit it when it is answered.")
            return
        self._chats.keep_draft()
        text = line.message.text
        # what begins like a command was sent with a second slash
        shown = f"/{text}" if text.startswith("/") and "\n" not in text else text
        session.editing = Editing(line.key, index, Draft(shown), text)
        self._prompt.load(session.editing.draft)
        self._transcript.mark_entry(index)
        self._screen.set_focus(self._prompt)
        self._screen.redraw()

    def leave_edit(self) -> bool:
        """Bring the draft back; a changed text is what Up recalls. False: nothing was edited."""
        session = self._current
        editing = session.editing
        if editing is None:
            return False
        text = self._prompt.draft.full
        session.editing = None
        self._prompt.load(session.draft)
        if text.strip() and text not in (editing.text, f"/{editing.text}"):
            self._prompt.add_sent(text)
        self._screen.redraw()
        return True

    def escape(self) -> None:
        """Close the list, else leave the edit, else what Esc does otherwise."""
        if self._screen.has_class("-list-open") or not self.leave_edit():
            self._answers.stop()

    def send_edit(self, text: str) -> bool:
        """Ask what was edited; False when it was refused, and is still being edited."""
        session = self._current
        editing = session.editing
        assert editing is not None, "nothing is edited"
        if not self._try(lambda: self._service.edit(session.id, editing.key, text)):
            return False
        session.editing = None
        self._answered(session)
        self._prompt.load(session.draft)
        return True

    # versions

    def show_version(self, step: int, entry: int | None = None) -> None:
        """Show an earlier or a later version of a line, and what was said below it."""
        session = self._current
        index = _versioned_at(session, entry)
        if index is None:
            self._app.tell("There is no other version of this message.")
            return
        line = self._line(session, index)
        if line is None:
            return
        try:
            shown = self._service.show_sibling(session.id, line.key, step)
        except LocalPagedError as error:
            self._app.tell_error(error)
            return
        if shown is None:
            self._app.tell("This is the newest version." if step > 0 else "This is the first one.")
            return
        self._workspace.refresh()
        self.reshow(session, keep=index)

    # a chat of its own

    def fork(self, entry: int | None = None) -> None:
        """Make a chat that begins with the messages up to one, and show it."""
        session = self._current
        if session.chat is None or not session.entries:
            self._app.tell("There is nothing to fork yet.")
            return
        index = _fork_point(session) if entry is None else entry
        line = self._line(session, index)
        if line is None:
            return
        key = line.message.hash if line.message is not None else self._question_of(session, index)
        try:
            fork = self._service.fork(session.id, key)
            self._workspace.refresh()
        except LocalPagedError as error:
            self._app.tell_error(error)
            return
        forked = self._workspace.find(fork.id)
        assert forked is not None, "a fork is listed at once"
        self._chats.go_to(forked)
        self._screen.set_focus(self._prompt)
        num = len(forked.entries)
        shared = "1 message" if num == 1 else f"{num} messages"
        self._app.tell(f"A fork of “{visible(session.title)}”: {shared} shared, no memory taken")

    def _question_of(self, session: SessionModel, index: int) -> str:
        """An open answer has no message: fork at what it answers."""
        return self._service.transcript(session.id)[index - 1].key

    # the history and what is shown

    def reshow(self, session: SessionModel, *, keep: int | None = None) -> None:
        """Read a chat anew; message `keep` stays where it is on the screen, and has the cursor."""
        row = None if keep is None else self._transcript.row_of(keep)
        session.load(self._service.transcript(session.id))
        self._transcript.forget(session)
        if session is not self._current:
            return
        self._transcript.show(session, self._screen.moment)
        if keep is not None and keep < len(session.entries):
            self._transcript.mark_entry(keep, row=row)
        self._screen.redraw()

    def ended(self, ends: Iterable[TurnEnded]) -> None:
        """An answer that has versions ended: it may be, word for word, one of the others."""
        for end in ends:
            session = self._workspace.find(end.chat_id)
            answer = session.answer(end.turn_id) if session is not None else None
            if session is None or answer is None or answer.siblings is None:
                continue
            lines = self._service.transcript(session.id)
            if [_num_versions(line) for line in lines] == [
                _num_versions(entry) for entry in session.entries
            ]:
                continue
            self.reshow(session)
            if session is self._current:
                self._app.tell("The new answer is, word for word, one that was there.")

    def follow_others(self) -> None:
        """Show what another program wrote in the current chat."""
        session = self._current
        if self._workspace.is_changed_elsewhere():
            following = self._transcript.is_following
            top = self._transcript.top_entry
            self.reshow(session, keep=None if following else top)

    def _line(self, session: SessionModel, index: int) -> Exchange | None:
        """The message as the history has it; None, and the chat anew, when it is not there."""
        try:
            lines = self._service.transcript(session.id)
        except LocalPagedError as error:
            self._app.tell_error(error)
            return None
        if index < len(lines) and _is_shown(lines[index], session.entries[index]):
            return lines[index]
        self.reshow(session)
        self._app.tell("The chat was changed in another localpaged. This is how it is now.")
        return None


def _is_shown(line: Exchange, entry: Question | Answer) -> bool:
    if isinstance(entry, Answer):
        return line.turn is None or not entry.turn.id or line.turn.id == entry.turn.id
    return line.message is not None and line.message.text == entry.text


def _answer_at(session: SessionModel, entry: int | None) -> int | None:
    """The answer that is meant: at the cursor, below the question there, or the newest begun."""
    entries = session.entries
    if entry is None:
        wanted = session.open_answer or session.last_answer
        return None if wanted is None else entries.index(wanted)
    following = range(entry, min(entry + 2, len(entries)))
    return next((i for i in following if isinstance(entries[i], Answer)), None)


def _question_at(session: SessionModel, entry: int | None) -> int | None:
    """The user's message that is meant: at the cursor, above the answer there, or the newest."""
    last = len(session.entries) - 1 if entry is None else entry
    for index in range(last, -1, -1):
        found = session.entries[index]
        if isinstance(found, Question) and not found.is_system:
            return index
    return None


def _versioned_at(session: SessionModel, entry: int | None) -> int | None:
    entries = session.entries
    if entry is not None:
        return entry if entries[entry].siblings is not None else None
    found = (i for i in range(len(entries) - 1, -1, -1) if entries[i].siblings is not None)
    return next(found, None)


def _fork_point(session: SessionModel) -> int:
    """The end; before what is being answered, or waits to be."""
    answer = session.open_answer
    return len(session.entries) - 1 if answer is None else session.entries.index(answer)


def _num_versions(line: Exchange | Question | Answer) -> int:
    return len(line.siblings.keys) if line.siblings else 1
