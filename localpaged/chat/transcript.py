"""A chat as it is read from top to bottom: its messages, then what is not in the tree yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from localpaged.chat.branches import BranchTree
from localpaged.chat.live import LiveTurns
from localpaged.chat.view import shown
from localpaged.store.lineage import Lineage
from localpaged.store.rows import Exchange, Message, Turn
from localpaged.store.store import Conversation

WAITING_PREFIX = "waiting:"


def transcript(
    conversation: Conversation, lineage: Lineage, live: LiveTurns, known: Mapping[str, Turn]
) -> Sequence[Exchange]:
    """Return the lines of a chat; open answers carry the text that has arrived by now.

    Of an answer that is being made anew the latest try is the line, the others are its siblings.

    `known` are the rows of the turns that ran before the conversation was read: one of them may
    have ended since, and what is read of it is then an older checkpoint.
    """
    made_by = {turn.tip_hash: turn for turn in conversation.turns if turn.tip_hash is not None}
    lines = [
        Exchange(message, made_by.get(message.hash) if message.role == "assistant" else None)
        for message in shown(conversation.chat, conversation.messages)
    ]
    unplaced = [turn for turn in conversation.turns if turn.tip_hash is None]
    end = conversation.messages[-1].hash if conversation.messages else None
    begun = [t for t in unplaced if t.question is None and t.parent_hash == end]
    for turn in (*begun[-1:], *(t for t in unplaced if t.question is not None)):
        lines += _unplaced(_latest(turn, live, known))
    tree = BranchTree(lineage)
    return [replace(line, siblings=tree.siblings(line.key)) for line in lines]


def _unplaced(turn: Turn) -> Sequence[Exchange]:
    answer = Exchange(None, turn)
    if turn.question is None:
        return (answer,)
    question = Message(f"{WAITING_PREFIX}{turn.id}", None, "user", turn.question)
    return (Exchange(question, None), answer)


def _latest(turn: Turn, live: LiveTurns, known: Mapping[str, Turn]) -> Turn:
    running = live.get(turn.id)
    row = running.row() if running is not None else known.get(turn.id)
    if row is None or not turn.status.is_open:
        return turn
    # The row of the conversation decides about the place, for that is what its messages fit.
    return replace(row, question=turn.question, parent_hash=turn.parent_hash)
