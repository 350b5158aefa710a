"""Which chats a living program is answering, and which a dead one left unanswered."""

from __future__ import annotations

from pathlib import Path

from sqlite_utils import Database

from localpaged.store.locks import is_held


def is_answered_elsewhere(db: Database, chat_id: str, *, run_id: str) -> bool:
    """Tell whether another living run than `run_id` has an open turn in the chat."""
    return any(is_held(lock_file) for lock_file in _locks_of_others(db, chat_id, run_id))


def is_left_open(db: Database, chat_id: str, *, run_id: str) -> bool:
    """Tell whether a run that is dead has an open turn in the chat."""
    return any(not is_held(lock_file) for lock_file in _locks_of_others(db, chat_id, run_id))


def _locks_of_others(db: Database, chat_id: str, run_id: str) -> list[Path]:
    rows = db.query(
        "SELECT DISTINCT runs.lock_file FROM turns JOIN runs ON runs.id = turns.run_id"
        " WHERE turns.chat_id = ? AND turns.run_id <> ?",
        [chat_id, run_id],
    )
    return [Path(str(row["lock_file"])) for row in rows]
