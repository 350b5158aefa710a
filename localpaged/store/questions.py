"""What the user asked lately, over all chats that are not deleted."""

from __future__ import annotations

from collections.abc import Sequence

from sqlite_utils import Database

MAX_CHARS = 100_000
_RECENT = """
SELECT parts.text AS text FROM turns
JOIN chats ON chats.id = turns.chat_id
JOIN messages ON messages.hash = turns.parent_hash AND messages.role = 'user'
JOIN parts ON parts.message_hash = messages.hash AND parts.position = 0
WHERE chats.deleted_at IS NULL AND length(parts.text) <= :max_chars
GROUP BY parts.text ORDER BY max(turns.created_at) DESC LIMIT :limit
"""


def recent_questions(db: Database, *, limit: int) -> Sequence[str]:
    """Return texts that were asked, each once, the latest last; very long ones are left out."""
    rows = db.query(_RECENT, {"max_chars": MAX_CHARS, "limit": limit})
    return [str(row["text"]) for row in rows][::-1]
