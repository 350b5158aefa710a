"""All ways of the message tree that belong to one chat, without their texts.

A chat's own turns tell where it branched; what it began with belongs to it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from json import dumps

from sqlite_utils import Database

from localpaged.store.overlay import Overlay
from localpaged.store.rows import Chat, Message

_OWN_TURNS = """
SELECT id, parent_hash, tip_hash, created_at, question IS NOT NULL AS is_waiting
FROM turns WHERE chat_id = ?
"""
_WAYS = """
WITH RECURSIVE way(hash, parent_hash, role) AS (
    SELECT hash, parent_hash, role FROM messages
    WHERE hash IN (SELECT value FROM json_each(?))
    UNION
    SELECT messages.hash, messages.parent_hash, messages.role
    FROM way JOIN messages ON messages.hash = way.parent_hash
)
SELECT hash, parent_hash, role, NOT EXISTS (
    SELECT 1 FROM parts WHERE parts.message_hash = way.hash AND parts.text <> ''
) AS is_empty
FROM way
"""


@dataclass(frozen=True, slots=True)
class OwnTurn:
    """Where a turn of the chat hangs. `is_waiting`: its question has no place in the tree yet."""

    id: str
    parent_hash: str | None
    tip_hash: str | None
    created_at: float
    is_waiting: bool

    @property
    def is_asked_last(self) -> bool:
        """Whether its question is placed and its answer is not: the chat's tip will follow it."""
        return self.tip_hash is None and not self.is_waiting


@dataclass(frozen=True, slots=True)
class Place:
    """A message's place in the tree."""

    hash: str
    parent_hash: str | None
    role: str
    is_empty: bool


@dataclass(frozen=True, slots=True)
class Lineage:
    """The places that belong to a chat; its own turns in the order they were asked."""

    places: Mapping[str, Place]
    turns: Sequence[OwnTurn]


def read_own_turns(
    db: Database, overlay: Overlay, chat_id: str, *, turn_id: str | None = None
) -> Sequence[OwnTurn]:
    """Return the chat's own turns in the order they were asked, or the one of that id."""
    rows = db.query(f"{_OWN_TURNS} AND id = coalesce(?, id)", [chat_id, turn_id])
    own = {str(row["id"]): _own_turn(row) for row in rows}
    for turn in overlay.turns(()).values():
        if turn.chat_id == chat_id and turn_id in (None, turn.id):
            own[turn.id] = OwnTurn(
                turn.id,
                turn.parent_hash,
                turn.tip_hash,
                turn.created_at,
                is_waiting=turn.question is not None,
            )
    return sorted(own.values(), key=lambda turn: (turn.created_at, turn.id))


def read_lineage(
    db: Database, overlay: Overlay, chat: Chat, *, known: Iterable[Message] = ()
) -> Lineage:
    """Return what belongs to a chat: the ways to its tip, its beginning and all its turns.

    A way to the root that is `known` already is not read again.
    """
    turns = read_own_turns(db, overlay, chat.id)
    ends = [chat.tip_hash, chat.base_hash]
    ends += [name for turn in turns for name in (turn.parent_hash, turn.tip_hash)]
    unsaved = overlay.messages()
    places = {message.hash: _place(message) for message in known}
    saved: set[str] = set()
    for end in ends:
        below = end
        while below in unsaved and below not in places:
            places[below] = _place(unsaved[below])
            below = unsaved[below].parent_hash
        if below is not None and below not in places:
            saved.add(below)
    for row in db.query(_WAYS, [dumps(sorted(saved))]) if saved else ():
        place = Place(**{**row, "is_empty": bool(row["is_empty"])})
        places[place.hash] = place
    return Lineage(places, turns)


def _own_turn(row: Mapping[str, object]) -> OwnTurn:
    return OwnTurn(**{**row, "is_waiting": bool(row["is_waiting"])})  # type: ignore[arg-type]


def _place(message: Message) -> Place:
    return Place(message.hash, message.parent_hash, message.role, not message.text)
