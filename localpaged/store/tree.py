"""The content-addressed message tree.

A message is named by a hash over its role, its parts and its parent's hash, so a hash stands for a
whole conversation up to there. Chats with the same beginning share its rows, whoever writes them
first; a fork is one more chat row that points into the tree; nothing is ever changed in place.
It is the same idea as the prefix tree over KV blocks, in SQL.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable

from sqlite_utils import Database

from localpaged.store.rows import Message
from localpaged.store.search_index import index_message
from localpaged.store.text import storable

HASH_PREFIX = "b2:"
_HASH_BYTES = 16

_PATH = """
WITH RECURSIVE path(hash, parent_hash, role, depth) AS (
    SELECT hash, parent_hash, role, 0 FROM messages WHERE hash = ?
    UNION ALL
    SELECT messages.hash, messages.parent_hash, messages.role, path.depth + 1
    FROM path JOIN messages ON messages.hash = path.parent_hash
)
SELECT path.hash, path.parent_hash, path.role, parts.text
FROM path LEFT JOIN parts ON parts.message_hash = path.hash AND parts.type = 'text'
ORDER BY path.depth DESC, parts.position
"""

_ALL = """
SELECT messages.hash, messages.parent_hash, messages.role, parts.text
FROM messages LEFT JOIN parts ON parts.message_hash = messages.hash AND parts.type = 'text'
ORDER BY messages.hash, parts.position
"""


def make_message(parent_hash: str | None, role: str, text: str) -> Message:
    """Return the message that follows `parent_hash`; its text is made storable first."""
    text = storable(text)
    return Message(message_hash(parent_hash, role, text), parent_hash, role, text)


def message_hash(parent_hash: str | None, role: str, text: str) -> str:
    """Return the name of a message: `b2:` and BLAKE2b-16 over canonical JSON."""
    content = {
        "parent": parent_hash,
        "message": {"role": role, "parts": [{"type": "text", "text": text}]},
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return HASH_PREFIX + hashlib.blake2b(canonical.encode(), digest_size=_HASH_BYTES).hexdigest()


def insert_messages(db: Database, messages: Iterable[Message]) -> None:
    """Add messages, parents first. One that is there already is the same one: it is left alone."""
    for message in messages:
        db.execute(
            "INSERT OR IGNORE INTO messages (hash, parent_hash, role, created_at)"
            " VALUES (?, ?, ?, ?)",
            [message.hash, message.parent_hash, message.role, time.time()],
        )
        written = db.execute(
            "INSERT OR IGNORE INTO parts (message_hash, position, type, text)"
            " VALUES (?, 0, 'text', ?)",
            [message.hash, message.text],
        )
        if written.rowcount:
            index_message(db, message.hash, message.role, message.text)


def read_path(db: Database, tip_hash: str) -> list[Message]:
    """Return the conversation that ends in `tip_hash`, its first message first."""
    return _assemble(db.execute(_PATH, [tip_hash]))


def has_replies(db: Database, message_hash: str) -> bool:
    """Whether any message follows this one."""
    found = db.execute("SELECT 1 FROM messages WHERE parent_hash = ? LIMIT 1", [message_hash])
    return found.fetchone() is not None


def verify(db: Database) -> list[str]:
    """Derive every hash again; return those that do not match their rows, or lack their parent."""
    messages = _assemble(db.execute(_ALL))
    known = {message.hash for message in messages}
    return [
        message.hash
        for message in messages
        if message.hash != message_hash(message.parent_hash, message.role, message.text)
        or (message.parent_hash is not None and message.parent_hash not in known)
    ]


def _assemble(
    rows: Iterable[tuple[str, str | None, str, str | None]],
) -> list[Message]:
    messages: list[Message] = []
    for row_hash, parent_hash, role, text in rows:
        if messages and messages[-1].hash == row_hash:
            text = messages.pop().text + (text or "")
        messages.append(Message(row_hash, parent_hash, role, text or ""))
    return messages
