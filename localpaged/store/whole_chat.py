"""One chat with every way of the tree that belongs to it, and the texts: what an export takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlite_utils import Database

from localpaged.store.overlay import Overlay
from localpaged.store.records import select_turns
from localpaged.store.rows import Chat, Message, Turn

_ABOVE = """
WITH RECURSIVE above(hash) AS (
    SELECT value FROM json_each(?)
    UNION
    SELECT messages.parent_hash FROM above JOIN messages ON messages.hash = above.hash
    WHERE messages.parent_hash IS NOT NULL
)
SELECT messages.hash, messages.parent_hash, messages.role, group_concat(parts.text, '')
FROM above JOIN messages ON messages.hash = above.hash
LEFT JOIN parts ON parts.message_hash = messages.hash AND parts.type = 'text'
GROUP BY messages.hash
"""


@dataclass(frozen=True, slots=True)
class WholeChat:
    """A chat, its messages with parents first, and the turns that made them, oldest first.

    What has no place in the tree yet is not in it: an answer that is being made, a message that
    waits. A turn of another chat that made a shared message counts, one a message.
    """

    chat: Chat
    messages: Sequence[Message]
    turns: Sequence[Turn]


def read_whole(db: Database, overlay: Overlay, chat: Chat) -> WholeChat:
    """Return everything that belongs to the chat."""
    own = _turns(db, overlay, "turns.chat_id = ?", chat.id, lambda turn: turn.chat_id == chat.id)
    ends = [chat.tip_hash, chat.base_hash]
    ends += [name for turn in own for name in (turn.parent_hash, turn.tip_hash)]
    messages = _with_all_above(db, overlay, dict.fromkeys(name for name in ends if name))
    names = {message.hash for message in messages}
    others = _turns(
        *(db, overlay, "turns.tip_hash IN (SELECT value FROM json_each(?))"),
        json.dumps(sorted(names)),
        lambda turn: turn.tip_hash in names,
    )
    made_by = {turn.tip_hash: turn for turn in (*others, *own) if turn.tip_hash in names}
    turns = sorted(made_by.values(), key=lambda turn: (turn.created_at, turn.id))
    return WholeChat(chat, messages, turns)


def _turns(
    db: Database, overlay: Overlay, where: str, value: str, counts: Callable[[Turn], bool]
) -> Sequence[Turn]:
    found = overlay.turns(select_turns(db, where, [value])).values()
    return [turn for turn in found if counts(turn)]


def _with_all_above(db: Database, overlay: Overlay, names: Iterable[str]) -> list[Message]:
    unsaved = overlay.messages()
    found: dict[str, Message] = {}
    saved: list[str] = []
    for name in names:
        below: str | None = name
        while below in unsaved and below not in found:
            found[below] = unsaved[below]
            below = unsaved[below].parent_hash
        if below is not None and below not in found:
            saved.append(below)
    for name, parent, role, text in db.execute(_ABOVE, [json.dumps(saved)]):
        found[name] = Message(name, parent, role, text or "")
    return _parents_first(found)


def _parents_first(messages: Mapping[str, Message]) -> list[Message]:
    placed: dict[str, Message] = {}
    for name in sorted(messages):
        way: list[Message] = []
        below: str | None = name
        while below is not None and below in messages and below not in placed:
            way.append(messages[below])
            below = messages[below].parent_hash
        placed.update((message.hash, message) for message in reversed(way))
    return list(placed.values())
