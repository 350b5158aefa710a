"""Going back in a chat: answer again, edit as a branch, fork, go through the versions of a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.chat.transcript import WAITING_PREFIX
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

    @property
    def _marked(self) -> int | None:
        """The cursor counts while the transcript is in use."""
        return self._transcript.marked_entry if self._transcript.has_focus else None

    def go(self, way: str, entry: int | None) -> None:
        """Go a way that the transcript offers."""
        if entry is not None and entry >= len(self._current.entries):
            return  # a key before this one took the chat another way
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

    def regenerate(self, entry: int | None = None) -> None:
        """Have a question answered once more; the answer that is there stays as a version."""
        session = self._current
        index = _answer_at(session, entry)
        if index is None:
            self._app.tell("There is no answer to regenerate yet.")
        else:
            self._try(lambda: self._answer_again(session, index))

    def _answer_again(self, session: SessionModel, index: int) -> None:
        answer = session.entries[index]
        if isinstance(answer, Answer) and answer.turn.id:
            self._service.regenerate(answer.turn.id, chat_id=session.id)
        else:
            # nobody knows any more what made the answer: its question is asked once more
            question = session.entries[index - 1]
            self._service.edit(session.id, self._key(session, index - 1), question.text)
        self._asked(session)

    def _asked(self, session: SessionModel) -> None:
        self._workspace.refresh()
        self.reshow(session)
        self._transcript.follow()
        self._screen.redraw()

    # another question

    def edit_marked(self) -> None:
        """Edit the message at the cursor, else the newest one."""
        self.edit(self._marked)

    def edit(self, entry: int | None = None) -> None:
        """Load a message into the prompt; sent, it is a version of its own."""
        session = self._current
        index = _question_at(session, entry)
        if index is None:
            self._app.tell("There is no message of yours to edit yet.")
        else:
            self._try(lambda: self._load_for_edit(session, index))

    def _load_for_edit(self, session: SessionModel, index: int) -> None:
        key = self._key(session, index)
        if key.startswith(WAITING_PREFIX):
            self._app.tell("The message waits for its turn; it can be edited after that.")
            return
        self._chats.keep_draft()
        text = session.entries[index].text
        # what begins like a command was sent with a second slash
        shown = f"/{text}" if text.startswith("/") and "\n" not in text else text
        session.editing = Editing(key, index, Draft(shown), text)
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
        self._chats.keep_draft()
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
        self._prompt.load(session.draft)
        self._chats.keep_draft()
        self._try(lambda: self._asked(session))
        return True

    # versions

    def show_version(self, step: int, entry: int | None = None) -> None:
        """Show an earlier or a later version of a line, and what was said below it."""
        session = self._current
        index = _versioned_at(session, entry)
        if index is None:
            self._app.tell("There is no other version of this message.")
        else:
            self._try(lambda: self._show_version(session, index, step))

    def _show_version(self, session: SessionModel, index: int, step: int) -> None:
        if self._service.show_sibling(session.id, self._key(session, index), step) is None:
            self._app.tell("This is the newest version." if step > 0 else "This is the first one.")
            return
        self._workspace.refresh()
        self.reshow(session, keep=index)

    # a chat of its own

    def fork_marked(self) -> None:
        """Fork at the message at the cursor, else at the end."""
        self.fork(self._marked)

    def fork(self, entry: int | None = None) -> None:
        """Make a chat that begins with the messages up to one, and show it."""
        session = self._current
        # a system prompt alone is no message that a chat could begin with
        if session.chat is None or not any(isinstance(e, Answer) or e.key for e in session.entries):
            self._app.tell("There is nothing to fork yet.")
            return
        index = _fork_point(session) if entry is None else entry
        answer = session.entries[index]
        if isinstance(answer, Answer) and answer.is_open:
            # it has no message yet: fork at what it answers
            index -= 1
        self._try(lambda: self._fork(session, index))

    def _fork(self, session: SessionModel, index: int) -> None:
        fork = self._service.fork(session.id, self._key(session, index))
        self._workspace.refresh()
        forked = self._workspace.find(fork.id)
        assert forked is not None, "a fork is listed at once"
        self._chats.go_to(forked)
        self._screen.set_focus(self._prompt)
        num, title = len(forked.entries), visible(session.title)
        if num:
            shared = "1 message" if num == 1 else f"{num} messages"
            self._app.tell(f"A fork of “{title}”: {shared} shared, no memory taken")
        else:
            self._app.tell(f"A fork of “{title}” before its first message, which can be sent anew")

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
                self._app.tell("The new answer is, word for word, an earlier one.")

    def follow_others(self) -> None:
        """Show what another program wrote in the current chat, or left open when it died."""
        session = self._current
        self._workspace.follow_history()
        if not self._workspace.is_changed_elsewhere():
            return
        if _is_as_shown(self._service.transcript(session.id), session):
            session.seen_tip = session.chat.tip_hash if session.chat is not None else None
            return
        top = None if self._transcript.is_following else self._transcript.top_entry
        self.reshow(session, keep=top)

    def _key(self, session: SessionModel, index: int) -> str:
        """What the service calls a line: its message's hash, the turn's id of an open answer."""
        entry = session.entries[index]
        if isinstance(entry, Question) and entry.key:
            return entry.key
        following = (e for e in session.entries[index:] if isinstance(e, Answer))
        turn = next(following).turn
        if turn.id:
            # what the session knows of a turn is how it began
            turn = self._service.history.store.turn(turn.id)
        if isinstance(entry, Question):
            return turn.parent_hash or f"{WAITING_PREFIX}{turn.id}"
        return turn.tip_hash or turn.id


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


def _is_as_shown(lines: Sequence[Exchange], session: SessionModel) -> bool:
    """Whether nothing was said since; only the newest line can have grown."""
    if len(lines) != len(session.entries) or not lines:
        return not lines and not session.entries
    line, entry = lines[-1], session.entries[-1]
    if isinstance(entry, Question) or line.turn is None:
        return line.message is not None and line.message.text == entry.text
    text = line.message.text if line.message is not None else line.turn.partial_text
    return (line.turn.id, line.turn.status, text) == (entry.turn.id, entry.status, entry.text)


def _num_versions(line: Exchange | Question | Answer) -> int:
    return len(line.siblings.keys) if line.siblings else 1
