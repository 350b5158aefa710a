"""How many chats a history has, read without opening it as a store."""

from __future__ import annotations

import sqlite3


def num_chats(db: sqlite3.Connection) -> int:
    """Return how many chats `ChatScope.ALL` has, in a history of any version.

    Answers of a compare that were not kept are chats of their own, which nobody sees in a list.
    """
    columns = {str(row[1]) for row in db.execute("PRAGMA table_info(chats)")}
    seen = "deleted_at IS NULL" + (" AND NOT is_hidden" if "is_hidden" in columns else "")
    (count,) = db.execute(f"SELECT count(*) FROM chats WHERE {seen}").fetchone()
    return int(count)
