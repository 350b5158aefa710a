"""What the writing thread is asked to do. Frozen; each is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypedDict, Unpack

from sqlite_utils import Database

from localpaged.errors import StoreError
from localpaged.store.claims import is_answered_elsewhere
from localpaged.store.compares import put_compares
from localpaged.store.prompts import put_prompts
from localpaged.store.records import delete_partial, put_chats, put_partial, put_turn
from localpaged.store.rows import Chat, Compare, Message, SentPrompt, Turn
from localpaged.store.sweep import purge
from localpaged.store.text import storable
from localpaged.store.tree import insert_messages


class ChatColumns(TypedDict, total=False):
    """What of a chat may change."""

    title: str
    tip_hash: str | None
    model: str
    draft: str
    updated_at: float
    deleted_at: float | None
    options: str
    system: str | None
    archived_at: float | None
    is_unread: bool
    view_hash: str | None
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class ChatChange:
    """New values for some columns of one chat; what another program changes beside it stays."""

    chat_id: str
    columns: tuple[tuple[str, Any], ...]

    def applied_to(self, chat: Chat) -> Chat:
        """Return the chat as it will be."""
        return replace(chat, **dict(self.columns))


def change_chat(chat_id: str, **columns: Unpack[ChatColumns]) -> ChatChange:
    """Return a change of the named columns; texts are made storable."""
    clean = {k: storable(v) if isinstance(v, str) else v for k, v in columns.items()}
    return ChatChange(chat_id, tuple(clean.items()))


class Operation(Protocol):
    """One transaction of the writing thread."""

    def apply(self, db: Database, *, run_id: str) -> None:
        """Change the database; a raised exception takes everything back."""


@dataclass(frozen=True, slots=True)
class Write:
    """Rows to put in place together. `turns` that have a tip are finished: their checkpoints go.

    `claimed_chat` is about to be answered by this run; another living run's open turn in it refuses
    the whole write. Two programs that ask at the same moment are told apart here, in the
    transaction, and nowhere else.
    """

    messages: Sequence[Message] = ()
    new_chats: Sequence[Chat] = ()
    chat_changes: Sequence[ChatChange] = ()
    turns: Sequence[Turn] = ()
    prompts: Sequence[SentPrompt] = ()
    claimed_chat: str | None = None
    compares: Sequence[Compare] = ()

    def apply(self, db: Database, *, run_id: str) -> None:
        """Insert, update and replace the rows, in the order that foreign keys want."""
        if self.claimed_chat and is_answered_elsewhere(db, self.claimed_chat, run_id=run_id):
            raise StoreError(
                "The chat is being answered in another localpaged.",
                hint="Wait until it is done there, or start a new chat.",
            )
        insert_messages(db, self.messages)
        put_chats(db, self.new_chats)
        for change in self.chat_changes:
            assignments = ", ".join(f"{column} = :{column}" for column, _ in change.columns)
            db.execute(
                f"UPDATE chats SET {assignments} WHERE id = :chat_id",
                {**dict(change.columns), "chat_id": change.chat_id},
            )
        put_compares(db, self.compares)
        for turn in self.turns:
            put_turn(db, turn, run_id=run_id)
            if not turn.status.is_open:
                delete_partial(db, turn.id)
            elif turn.partial_text:
                put_partial(
                    db,
                    turn.id,
                    turn.partial_text,
                    token_count=turn.completion_tokens or 0,
                    token_ids=turn.token_ids,
                    now=turn.created_at,
                )
        put_prompts(db, self.prompts)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The text so far of one open answer."""

    turn_id: str
    text: str
    token_count: int
    token_ids: bytes | None = None


@dataclass(frozen=True, slots=True)
class SaveCheckpoints:
    """The texts so far of all answers that grew."""

    checkpoints: Sequence[Checkpoint]
    now: float

    def apply(self, db: Database, *, run_id: str) -> None:
        """Replace the saved texts."""
        for point in self.checkpoints:
            put_partial(
                db,
                point.turn_id,
                point.text,
                token_count=point.token_count,
                token_ids=point.token_ids,
                now=self.now,
            )


@dataclass(frozen=True, slots=True)
class Purge:
    """Remove for good what was deleted before a time."""

    deleted_before: float

    def apply(self, db: Database, *, run_id: str) -> None:
        """Mark and sweep."""
        purge(db, deleted_before=self.deleted_before)


@dataclass(frozen=True, slots=True)
class EndRun:
    """This process is about to end cleanly; turns it never finished go to the next start."""

    def apply(self, db: Database, *, run_id: str) -> None:
        """Remove the run's row if nothing hangs on it."""
        db.execute(
            "DELETE FROM runs WHERE id = ? AND id NOT IN"
            " (SELECT run_id FROM turns WHERE run_id IS NOT NULL)",
            [run_id],
        )
