"""Store: the history as everything above it sees it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Database
from ulid import ULID

from localpaged import paths
from localpaged.errors import NotInHistory, StoreError
from localpaged.store import tree
from localpaged.store.claims import is_answered_elsewhere, is_left_open
from localpaged.store.compares import select_compares
from localpaged.store.database import connect, open_database
from localpaged.store.failures import explained
from localpaged.store.lineage import Lineage, read_lineage, read_own_turns
from localpaged.store.locks import RunLock, try_exclusive
from localpaged.store.overlay import Overlay
from localpaged.store.questions import recent_questions
from localpaged.store.records import select_chats, select_turns
from localpaged.store.recovery import EndDeadRuns, start_run
from localpaged.store.rows import Chat, Compare, Message, Turn
from localpaged.store.scope import DELETED_KEPT_S, ChatScope
from localpaged.store.search import SearchResult, search
from localpaged.store.search_index import IndexPending, num_pending
from localpaged.store.sent import SentSequence, read_last_sent, read_sent
from localpaged.store.whole_chat import WholeChat, read_whole
from localpaged.store.writer import StoreWriter
from localpaged.store.writes import EndRun, Operation, Purge, Write

_TURNS_OF_A_CHAT = (
    "turns.tip_hash IN (SELECT value FROM json_each(?))"
    " OR (turns.chat_id = ? AND turns.tip_hash IS NULL)"
)

# A transaction sees the database as it was at its first read.
_FREEZE = "SELECT 1 FROM sqlite_master"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat at one moment: the messages up to its tip, and the turns that belong to them.

    `turns` made one of the messages or are not placed in the tree yet. Turns of other chats that
    share a message come first, so that the chat's own win.
    """

    chat: Chat
    messages: Sequence[Message]
    turns: Sequence[Turn]


def new_id() -> str:
    """Return a fresh id: sorted by time, unique across processes."""
    return str(ULID()).lower()


class Store:
    """Reads on any thread, through a connection each; writes go to the one writing thread.

    A read sees everything submitted before it, saved or not. What goes wrong below is raised as
    StoreError.
    """

    def __init__(self, db: Database, path: Path) -> None:
        """Take over a database from `open_database`: enter this run, recover from crashes."""
        self.path = path
        self.run_id = new_id()
        self.on_closing: Callable[[], None] = _nothing
        self._threads = threading.local()
        self._readers: list[Database] = []
        self._is_closed = False
        self._screen: int | None = None
        with explained(path):
            self._lock = RunLock(self.run_id)
            try:
                self.num_interrupted = start_run(
                    db, self._lock, run_id=self.run_id, pid=os.getpid()
                )
            except BaseException:
                self._lock.release()
                db.close()
                raise
        self.writer = StoreWriter(db, path, run_id=self.run_id)
        self._purge_old()
        self._index_older()

    @classmethod
    def open(cls, path: Path | None = None) -> Store:
        """Open the history at `path`, by default the user's; make or migrate it first."""
        return cls(*open_database(path or paths.database_file()))

    def claim_screen(self) -> bool:
        """Be the program that shows the chats; False while another one on this machine does."""
        with explained(self.path):
            if self._screen is None:
                folder = paths.ensure_private_dir(paths.state_dir())
                self._screen = try_exclusive(folder / "screen.lock")
            return self._screen is not None

    # writing

    def submit(self, operation: Operation) -> Future[None]:
        """Queue an operation; the Future is done when it is durable."""
        if isinstance(operation, Write) and operation.new_chats:
            operation = replace(operation, new_chats=[_begun(c) for c in operation.new_chats])
        return self.writer.submit(operation)

    def fork(self, chat_id: str, *, at_hash: str | None, draft: str = "") -> Chat:
        """Make a chat that shares the messages up to `at_hash`. Raises NotInHistory."""
        chat = self.chat(chat_id)
        self.path_to(at_hash)
        now = time.time()
        fork = replace(
            chat,
            id=new_id(),
            tip_hash=at_hash,
            base_hash=at_hash,
            forked_from=chat.id,
            draft=draft,
            created_at=now,
            updated_at=now,
            deleted_at=None,
            archived_at=None,
            is_unread=False,
            is_hidden=False,
        )
        self.submit(Write(new_chats=(fork,)))
        return fork

    # reading

    def chats(self, scope: ChatScope = ChatScope.LISTED) -> Sequence[Chat]:
        """Return every chat of a scope, the latest used first."""
        chats = self._read(lambda db, overlay: overlay.chats(select_chats(db, "TRUE", [])))
        wanted = [chat for chat in chats if scope.has(chat)]
        return sorted(wanted, key=lambda chat: (chat.updated_at, chat.id), reverse=True)

    def compares(self) -> Sequence[Compare]:
        """Return every compare, the latest first."""
        found = self._read(lambda db, overlay: overlay.compares(select_compares(db, "TRUE", [])))
        return sorted(found.values(), key=lambda c: (c.created_at, c.id), reverse=True)

    def compare(self, compare_id: str) -> Compare:
        """Return a compare. Raises NotInHistory."""
        found = self._read(
            lambda db, overlay: overlay.compares(select_compares(db, "id = ?", [compare_id]))
        )
        if compare_id not in found:
            raise NotInHistory(f"There is no compare {compare_id}.")
        return found[compare_id]

    def recent_questions(self, *, limit: int) -> Sequence[str]:
        """Return what was asked in any chat, each text once, the latest last."""
        return self._read(lambda db, _: recent_questions(db, limit=limit))

    def data_version(self) -> int:
        """A number that changes when something was saved, by this program or another.

        Only numbers of the same thread compare. Costs microseconds.
        """
        reader = self._reader()
        with explained(self.path):
            (version,) = reader.execute("PRAGMA data_version").fetchone()
        return int(version)

    def chat(self, chat_id: str) -> Chat:
        """Return a chat, deleted or not. Raises NotInHistory."""
        return self._read(lambda db, overlay: _chat(db, overlay, chat_id))

    def path_to(self, tip_hash: str | None) -> Sequence[Message]:
        """Return the conversation that ends in `tip_hash`, its first message first.

        None is the empty conversation. Raises NotInHistory.
        """
        return self._read(lambda db, overlay: _path(db, overlay, tip_hash))

    def turn(self, turn_id: str) -> Turn:
        """Return a turn. Raises NotInHistory."""
        turns = self._read(
            lambda db, overlay: overlay.turns(select_turns(db, "turns.id = ?", [turn_id]))
        )
        if turn_id not in turns:
            raise NotInHistory(f"There is no answer {turn_id}.")
        return turns[turn_id]

    def conversation(self, chat_id: str, *, up_to: str | None = None) -> Conversation:
        """Return a chat with its messages and turns, as they were at one moment.

        With `up_to` the messages end with that one instead of the tip. Raises NotInHistory.
        """

        def read(db: Database, overlay: Overlay) -> Conversation:
            chat = _chat(db, overlay, chat_id)
            messages = _path(db, overlay, up_to or chat.tip_hash)
            turns = _turns(db, overlay, chat_id, messages)
            return Conversation(chat, messages, turns)

        return self._read(read)

    def chat_tree(self, chat_id: str, *, answering: str = "") -> tuple[Conversation, Lineage]:
        """Return a chat's conversation and every other way that belongs to it, at one moment.

        The messages lead to the question of the turn `answering` as long as its answer has no
        place, else to the tip. Raises NotInHistory.
        """

        def read(db: Database, overlay: Overlay) -> tuple[Conversation, Lineage]:
            chat = _chat(db, overlay, chat_id)
            asked = read_own_turns(db, overlay, chat_id, turn_id=answering) if answering else ()
            tips = [turn.parent_hash for turn in asked if turn.is_asked_last]
            messages = _path(db, overlay, tips[0] if tips else chat.tip_hash)
            turns = _turns(db, overlay, chat_id, messages)
            lineage = read_lineage(db, overlay, chat, known=messages)
            return Conversation(chat, messages, turns), lineage

        return self._read(read)

    def lineage(self, chat_id: str) -> Lineage:
        """Return all ways that belong to a chat, without their texts. Raises NotInHistory."""
        return self._read(
            lambda db, overlay: read_lineage(db, overlay, _chat(db, overlay, chat_id))
        )

    def has_replies(self, message_hash: str) -> bool:
        """Whether any message of any chat follows this one."""

        def read(db: Database, overlay: Overlay) -> bool:
            unsaved = overlay.messages().values()
            is_replied = any(message.parent_hash == message_hash for message in unsaved)
            return is_replied or tree.has_replies(db, message_hash)

        return self._read(read)

    def last_sent(self, chat_id: str) -> SentSequence | None:
        """Return what the engine read and wrote for a chat last; for a fork that has no answer of
        its own yet, for the chat it came from. None when that is not known."""
        return self._read(
            lambda db, overlay: read_last_sent(db, overlay, _chat(db, overlay, chat_id))
        )

    def sent(self, turn_id: str) -> SentSequence | None:
        """Return what the engine read and wrote for a turn; None when that is not known."""
        return self._read(lambda db, overlay: read_sent(db, overlay, turn_id))

    def whole_chat(self, chat_id: str) -> WholeChat:
        """Return a chat with all its branches and turns, at one moment. Raises NotInHistory."""
        return self._read(lambda db, overlay: read_whole(db, overlay, _chat(db, overlay, chat_id)))

    def known_turns(self, turn_ids: Collection[str]) -> frozenset[str]:
        """Return which of these turns are in the history."""
        packed = dumps(sorted(turn_ids))
        where = "turns.id IN (SELECT value FROM json_each(?))"
        turns = self._read(lambda db, overlay: overlay.turns(select_turns(db, where, [packed])))
        return frozenset(turns) & frozenset(turn_ids)

    def search(self, query: str, *, scope: ChatScope = ChatScope.ALL) -> SearchResult:
        """Look for a text in titles and messages; any text is a query.

        Titles are as they were submitted, messages as they were saved: a text that still waits to
        be saved is found a moment later.
        """
        return self._read(lambda db, overlay: search(db, overlay, query, scope=scope))

    def is_answered_elsewhere(self, chat_id: str) -> bool:
        """Whether another running program has an open turn in this chat."""
        with explained(self.path):
            return is_answered_elsewhere(self._reader(), chat_id, run_id=self.run_id)

    def end_left_open(self, chat_id: str) -> bool:
        """End the chat's answers that a program left open when it died; whether there are any."""
        with explained(self.path):
            is_left = is_left_open(self._reader(), chat_id, run_id=self.run_id)
        if is_left:
            self.submit(EndDeadRuns())
        return is_left

    def verify(self) -> Sequence[str]:
        """Derive every hash of the tree again; return those that do not match their rows."""
        with explained(self.path):
            return tree.verify(self._reader())

    def close(self) -> StoreError | None:
        """Save what is left and close; return why something stayed unsaved, if it did.

        `on_closing` is called first; nothing may be read or submitted afterwards. Calling it twice
        does no harm.
        """
        self.on_closing()
        self._is_closed = True
        self.submit(EndRun())
        failure = self.writer.close()
        while self._readers:
            self._readers.pop().close()
        self._lock.release()
        if self._screen is not None:
            os.close(self._screen)
            self._screen = None
        return failure

    def _read(self, read: Callable[[Database, Overlay], T]) -> T:
        reader = self._reader()
        while True:
            unsaved = self.writer.unsaved()
            with explained(self.path):
                reader.begin()
                try:
                    reader.execute(_FREEZE).fetchone()
                    # What was saved in between would be newer than what is laid over it.
                    if self.writer.generation == unsaved.generation:
                        return read(reader, Overlay(unsaved.operations))
                finally:
                    reader.rollback()

    def _reader(self) -> Database:
        if self._is_closed:
            raise StoreError("The history is closed.")
        reader: Database | None = getattr(self._threads, "reader", None)
        if reader is None:
            with explained(self.path):
                reader = self._threads.reader = connect(self.path, is_reader=True)
            self._readers.append(reader)
        return reader

    def _purge_old(self) -> None:
        before = time.time() - DELETED_KEPT_S
        with explained(self.path):
            old = select_chats(self._reader(), "deleted_at < ?", [before])
        if old:
            self.submit(Purge(before))

    def _index_older(self) -> None:
        with explained(self.path):
            if num_pending(self._reader()):
                self._index_batch()

    def _index_batch(self) -> None:
        """Index some old messages; whatever else is to be saved goes in between."""
        batch = IndexPending()

        def go_on(saved: Future[None]) -> None:
            if batch.has_more and not self._is_closed and saved.exception() is None:
                self._index_batch()

        self.submit(batch).add_done_callback(go_on)


def _chat(db: Database, overlay: Overlay, chat_id: str) -> Chat:
    for chat in overlay.chats(select_chats(db, "id = ?", [chat_id])):
        if chat.id == chat_id:
            return chat
    raise NotInHistory(f"There is no chat {chat_id}.", hint="`localpaged history` lists them.")


def _begun(chat: Chat) -> Chat:
    return replace(chat, base_hash=chat.base_hash or chat.tip_hash)


def _turns(
    db: Database, overlay: Overlay, chat_id: str, messages: Sequence[Message]
) -> Sequence[Turn]:
    tips = frozenset(message.hash for message in messages)
    saved = select_turns(db, _TURNS_OF_A_CHAT, [dumps(sorted(tips)), chat_id])
    found = [
        turn
        for turn in overlay.turns(saved).values()
        if turn.tip_hash in tips or (turn.tip_hash is None and turn.chat_id == chat_id)
    ]
    return sorted(found, key=lambda turn: (turn.chat_id == chat_id, turn.created_at, turn.id))


def _path(db: Database, overlay: Overlay, tip_hash: str | None) -> Sequence[Message]:
    unsaved = overlay.messages()
    newest_first: list[Message] = []
    below = tip_hash
    while below in unsaved:
        newest_first.append(unsaved[below])
        below = unsaved[below].parent_hash
    saved = [] if below is None else tree.read_path(db, below)
    if below is not None and not saved:
        raise NotInHistory(f"There is no message {below}.")
    return [*saved, *reversed(newest_first)]


def _nothing() -> None:
    """Nobody has anything left to save."""
