"""After a crash: answers of dead processes become interrupted messages that can be continued."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from sqlite_utils import Database

from localpaged.store.database import transaction
from localpaged.store.locks import RunLock, is_held
from localpaged.store.records import select_chats, select_turns
from localpaged.store.rows import Chat, Turn, TurnStatus
from localpaged.store.turns import place_answer
from localpaged.store.writes import Write, change_chat


def start_run(db: Database, lock: RunLock, *, run_id: str, pid: int) -> int:
    """Enter this run, and end the turns of runs that are dead; return how many those were."""
    now = time.time()
    with transaction(db):
        interrupted = _end_dead_runs(db, now=now)
        db.execute(
            "INSERT INTO runs (id, pid, lock_file, started_at) VALUES (?, ?, ?, ?)",
            [run_id, pid, str(lock.path), now],
        )
    return interrupted


@dataclass(frozen=True, slots=True)
class EndDeadRuns:
    """End the turns of runs that died while this one lives."""

    def apply(self, db: Database, *, run_id: str) -> None:
        """Interrupt them; their texts so far become messages."""
        _end_dead_runs(db, now=time.time())


def _end_dead_runs(db: Database, *, now: float) -> int:
    dead = [
        str(row["id"])
        for row in db.query("SELECT id, lock_file FROM runs")
        if not is_held(Path(str(row["lock_file"])))
    ]
    return sum(_end_run(db, dead_id, now=now) for dead_id in dead)


def _end_run(db: Database, run_id: str, *, now: float) -> int:
    turns = select_turns(db, "turns.run_id = ?", [run_id])
    for turn in turns:
        (chat,) = select_chats(db, "id = ?", [turn.chat_id])
        _interrupt(turn, chat, now=now).apply(db, run_id=run_id)
    (lock_file,) = db.execute("SELECT lock_file FROM runs WHERE id = ?", [run_id]).fetchone()
    db.execute("DELETE FROM runs WHERE id = ?", [run_id])
    Path(lock_file).unlink(missing_ok=True)
    return len(turns)


def _interrupt(turn: Turn, chat: Chat, *, now: float) -> Write:
    status = TurnStatus.INTERRUPTED if turn.status.is_open else turn.status
    ended = replace(turn, status=status, finished_at=turn.finished_at or now)
    placed = place_answer(ended, chat_tip=chat.tip_hash, text=turn.partial_text)
    is_at_tip = turn.question is not None or chat.tip_hash == turn.parent_hash
    advance = change_chat(chat.id, tip_hash=placed.turn.tip_hash)
    return Write(
        messages=placed.messages,
        chat_changes=(advance,) if is_at_tip else (),
        turns=(placed.turn,),
    )
