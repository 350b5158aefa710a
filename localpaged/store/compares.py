"""Compares and the chats they are made of, between rows and frozen values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from sqlite_utils import Database

from localpaged.store.records import Params
from localpaged.store.rows import Compare

_SELECT = """
SELECT id, prompt, created_at, from_chat, parent_hash, is_blind, voted_chat, voted_model,
    (SELECT group_concat(chat_id, ' ') FROM
        (SELECT chat_id FROM compare_branches WHERE compare_id = compares.id ORDER BY position)
    ) AS chat_ids
FROM compares
"""


def select_compares(db: Database, where: str, params: Params) -> list[Compare]:
    """Return the compares that the condition finds."""
    return [
        Compare(
            **{
                **row,
                "chat_ids": tuple((row["chat_ids"] or "").split()),
                "is_blind": bool(row["is_blind"]),
            }
        )
        for row in db.query(f"{_SELECT} WHERE {where}", params)
    ]


def put_compares(db: Database, compares: Iterable[Compare]) -> None:
    """Insert compares, or replace what they were; their chats must be there."""
    for compare in compares:
        record = asdict(compare)
        chat_ids = record.pop("chat_ids")
        columns = [*record]
        changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
        db.execute(
            f"INSERT INTO compares ({', '.join(columns)})"
            f" VALUES ({', '.join(f':{name}' for name in columns)})"
            f" ON CONFLICT (id) DO UPDATE SET {changes}",
            record,
        )
        db.execute("DELETE FROM compare_branches WHERE compare_id = ?", [compare.id])
        for position, chat_id in enumerate(chat_ids):
            # A chat may have been removed for good since the compare was read.
            db.execute(
                "INSERT INTO compare_branches (compare_id, chat_id, position)"
                " SELECT ?, id, ? FROM chats WHERE id = ?",
                [compare.id, position, chat_id],
            )
