"""How a turn enters the tree: its question when its time comes, its answer when it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from localpaged.store.rows import Message, Turn
from localpaged.store.tree import make_message


@dataclass(frozen=True, slots=True)
class PlacedTurn:
    """A turn and the messages that it adds to the tree, parents first."""

    turn: Turn
    messages: tuple[Message, ...]


def place_question(turn: Turn, *, chat_tip: str | None) -> PlacedTurn:
    """Hang a turn's waiting question below the chat's tip; nothing to do if it hangs already."""
    if turn.question is None:
        return PlacedTurn(turn, ())
    question = make_message(chat_tip, "user", turn.question)
    return PlacedTurn(replace(turn, question=None, parent_hash=question.hash), (question,))


def place_answer(turn: Turn, *, chat_tip: str | None, text: str) -> PlacedTurn:
    """Hang a turn's answer below its question, which is placed first if it still waits.

    An answer without text is a message too: roles go on alternating, and the turn has its place.
    """
    asked = place_question(turn, chat_tip=chat_tip)
    answer = make_message(asked.turn.parent_hash, "assistant", text)
    done = replace(asked.turn, tip_hash=answer.hash, partial_text="")
    return PlacedTurn(done, (*asked.messages, answer))
