"""What the engine read and wrote for a turn, as the history keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlite_utils import Database

from localpaged.store.overlay import Overlay
from localpaged.store.prompts import select_prompts, sequence_of
from localpaged.store.records import select_chats, select_turns
from localpaged.store.rows import Chat, SentPrompt, Turn


@dataclass(frozen=True, slots=True)
class SentSequence:
    """A turn, what the engine read for it, and all ids of prompt and answer (packed)."""

    turn: Turn
    prompt: SentPrompt
    ids: bytes


def read_sent(db: Database, overlay: Overlay, turn_id: str) -> SentSequence | None:
    """Return what was sent for a turn; None when that is not known."""
    found = overlay.turns(select_turns(db, "turns.id = ?", [turn_id])).get(turn_id)
    if found is None:
        return None
    prompts = overlay.prompts(select_prompts(db, found.chat_id))
    turns = overlay.turns(select_turns(db, "turns.chat_id = ?", [found.chat_id]))
    return _sequence(found, prompts, turns) if turn_id in prompts else None


def read_last_sent(db: Database, overlay: Overlay, chat: Chat) -> SentSequence | None:
    """Return what was sent for a chat last, or for the chat it came from; None when not known."""
    origin: Chat | None = chat
    while origin is not None:
        saved = select_turns(db, "turns.chat_id = ?", [origin.id])
        turns = {t.id: t for t in overlay.turns(saved).values() if t.chat_id == origin.id}
        prompts = overlay.prompts(select_prompts(db, origin.id))
        own = [turn for turn in turns.values() if turn.id in prompts]
        if own:
            return _sequence(max(own, key=_age), prompts, turns)
        origin = _origin(db, overlay, origin)
    return None


def _origin(db: Database, overlay: Overlay, chat: Chat) -> Chat | None:
    if chat.forked_from is None:
        return None
    found = overlay.chats(select_chats(db, "id = ?", [chat.forked_from]))
    return next((origin for origin in found if origin.id == chat.forked_from), None)


def _sequence(
    turn: Turn, prompts: Mapping[str, SentPrompt], turns: Mapping[str, Turn]
) -> SentSequence | None:
    ids = sequence_of(turn.id, prompts, turns)
    return None if ids is None else SentSequence(turn, prompts[turn.id], ids)


def _age(turn: Turn) -> tuple[float, str]:
    return turn.created_at, turn.id
