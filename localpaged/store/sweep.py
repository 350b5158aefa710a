"""Removing deleted chats for good: mark the messages that anything still needs, sweep the rest."""

from __future__ import annotations

from sqlite_utils import Database

_UNREACHABLE = """
WITH RECURSIVE needed(hash) AS (
    SELECT tip_hash FROM chats WHERE tip_hash IS NOT NULL
    UNION SELECT base_hash FROM chats WHERE base_hash IS NOT NULL
    UNION SELECT parent_hash FROM turns WHERE parent_hash IS NOT NULL
    UNION SELECT tip_hash FROM turns WHERE tip_hash IS NOT NULL
    UNION
    SELECT messages.parent_hash FROM needed JOIN messages ON messages.hash = needed.hash
    WHERE messages.parent_hash IS NOT NULL
)
DELETE FROM messages WHERE hash NOT IN (SELECT hash FROM needed)
"""


def purge(db: Database, *, deleted_before: float) -> int:
    """Remove chats deleted before that time and messages that no chat or turn needs any more.

    A message that another chat shares stays, and so do the other answers of the chats that live.
    Returns the number of chats. Belongs into a transaction.
    """
    doomed = "SELECT id FROM chats WHERE deleted_at < ?"
    for statement in (
        f"DELETE FROM partials WHERE turn_id IN (SELECT id FROM turns WHERE chat_id IN ({doomed}))",
        f"DELETE FROM prompts WHERE turn_id IN (SELECT id FROM turns WHERE chat_id IN ({doomed}))",
        f"DELETE FROM turns WHERE chat_id IN ({doomed})",
    ):
        db.execute(statement, [deleted_before])
    num_chats = db.execute("DELETE FROM chats WHERE deleted_at < ?", [deleted_before]).rowcount
    # their prompt is a text of the user's, too
    db.execute(
        "DELETE FROM compares WHERE created_at < ?"
        " AND id NOT IN (SELECT compare_id FROM compare_branches)",
        [deleted_before],
    )
    if num_chats:
        # Parents and children go in one statement, in no order: check their ties at the end.
        db.execute("PRAGMA defer_foreign_keys = ON")
        db.execute(_UNREACHABLE)
        db.execute("DELETE FROM parts WHERE message_hash NOT IN (SELECT hash FROM messages)")
    return num_chats
