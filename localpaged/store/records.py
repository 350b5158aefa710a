"""Between database rows and the frozen values of `rows`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlite_utils import Database

from localpaged.store.rows import Chat, Turn, TurnStatus

Params = list[Any] | dict[str, Any]

CHAT_COLUMNS = tuple(field.name for field in fields(Chat))
_SELECT_CHATS = f"SELECT {', '.join(CHAT_COLUMNS)} FROM chats"
_OF_PARTIALS = ("partial_text", "completion_tokens", "token_ids")
_TURN_COLUMNS = tuple(field.name for field in fields(Turn) if field.name not in _OF_PARTIALS)
_SELECT_TURNS = f"""
SELECT {", ".join(f"turns.{name}" for name in _TURN_COLUMNS)},
    coalesce(partials.text, '') AS partial_text,
    coalesce(partials.token_count, turns.completion_tokens) AS completion_tokens,
    coalesce(partials.token_ids, turns.token_ids) AS token_ids
FROM turns LEFT JOIN partials ON partials.turn_id = turns.id
"""


def select_chats(db: Database, where: str, params: Params) -> list[Chat]:
    """Return the chats that the condition finds."""
    return [_chat(row) for row in db.query(f"{_SELECT_CHATS} WHERE {where}", params)]


def select_turns(db: Database, where: str, params: Params) -> list[Turn]:
    """Return the turns that the condition finds, in the order they were asked."""
    order = "ORDER BY turns.created_at, turns.id"
    rows = db.query(f"{_SELECT_TURNS} WHERE {where} {order}", params)
    return [_turn(row) for row in rows]


def put_chats(db: Database, chats: Iterable[Chat]) -> None:
    """Insert chats, or replace what they were."""
    for chat in chats:
        _upsert(db, "chats", asdict(chat))


def put_turn(db: Database, turn: Turn, *, run_id: str) -> None:
    """Insert a turn or replace what it was; the run is named as long as something is left to do."""
    record = asdict(turn)
    del record["partial_text"]
    record["status"] = turn.status.value
    record["run_id"] = run_id if turn.tip_hash is None else None
    _upsert(db, "turns", record)


def put_partial(
    db: Database,
    turn_id: str,
    text: str,
    *,
    token_count: int,
    token_ids: bytes | None,
    now: float,
) -> None:
    """Keep the text so far of an open answer, and the ids it is made of."""
    db.execute(
        "INSERT OR REPLACE INTO partials (turn_id, text, token_count, token_ids, updated_at)"
        " VALUES (?, ?, ?, ?, ?)",
        [turn_id, text, token_count, token_ids, now],
    )


def delete_partial(db: Database, turn_id: str) -> None:
    """Drop the checkpoint of an answer that is complete."""
    db.execute("DELETE FROM partials WHERE turn_id = ?", [turn_id])


def _upsert(db: Database, table: str, record: Mapping[str, Any]) -> None:
    # Not sqlite-utils' own: it makes a table to find out what SQLite can, takes a full disk for a
    # no, and from then on inserts with OR IGNORE, which drops rows in silence.
    places = ", ".join(f":{name}" for name in record)
    changes = ", ".join(f"{name} = excluded.{name}" for name in record if name != "id")
    db.execute(
        f"INSERT INTO {table} ({', '.join(record)}) VALUES ({places})"
        f" ON CONFLICT (id) DO UPDATE SET {changes}",
        dict(record),
    )


def _chat(row: Mapping[str, Any]) -> Chat:
    flags = {name: bool(row[name]) for name in ("is_unread", "is_hidden")}
    return Chat(**{**row, **flags})


def _turn(row: Mapping[str, Any]) -> Turn:
    return Turn(**{**row, "status": TurnStatus(row["status"])})
