"""Rows for what is asked: a new chat, a new turn, and one that goes on; and what can be asked."""

from __future__ import annotations

import time
from dataclasses import replace

from localpaged.chat.live import LiveTurns
from localpaged.chat.sampling import to_options
from localpaged.chat.title import one_line
from localpaged.engine.events import FinishReason
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError
from localpaged.store.rows import Chat, Message, Turn, TurnStatus
from localpaged.store.store import Store, new_id
from localpaged.store.text import storable


def made_chat(title: str, root: Message | None) -> Chat:
    """Return a chat that begins with `root`."""
    now = time.time()
    return Chat(
        id=new_id(),
        title=one_line(storable(title)),
        tip_hash=None if root is None else root.hash,
        model="",
        draft="",
        created_at=now,
        updated_at=now,
    )


def asked_turn(chat: Chat, text: str, sampling: SamplingParams) -> Turn:
    """Return a turn that waits with its question for its place behind the chat's others."""
    return Turn(
        id=new_id(),
        chat_id=chat.id,
        parent_hash=None,
        tip_hash=None,
        status=TurnStatus.QUEUED,
        model=chat.model,
        seed=sampling.seed,
        created_at=time.time(),
        question=text,
        options=to_options(sampling),
    )


def reopened_turn(turn: Turn, text: str, sampling: SamplingParams) -> Turn:
    """Return a turn that goes on after its answer so far, `text`."""
    return replace(
        turn,
        tip_hash=None,
        status=TurnStatus.QUEUED,
        partial_text=text,
        finish_reason=None,
        error=None,
        seed=sampling.seed,
        finished_at=None,
        options=to_options(sampling),
        cache_report=None,
    )


def open_chat(store: Store, chat_id: str) -> Chat:
    """Return a chat that can be answered. Raises NotInHistory, and ChatError for another one."""
    chat = store.chat(chat_id)
    if chat.deleted_at is not None:
        raise ChatError(f"The chat “{chat.title}” is deleted.", hint="Restore it first.")
    if store.is_answered_elsewhere(chat_id):
        raise ChatError(
            f"The chat “{chat.title}” is being answered in another localpaged.",
            hint="Wait until it is done there, or start a new chat.",
        )
    return chat


def text_to_continue(store: Store, live: LiveTurns, turn: Turn) -> str:
    """Return an answer that can go on. Raises ChatError for one that is complete or not the last."""
    if turn.status.is_open:
        raise ChatError("The answer is still running.", hint="Stop it, or wait for its end.")
    if turn.finish_reason == FinishReason.STOP:
        raise ChatError("The answer is complete.", hint="Send another message.")
    conversation = store.conversation(turn.chat_id)
    is_last = turn.tip_hash is not None and turn.tip_hash == conversation.chat.tip_hash
    if not is_last or live.of_chat(turn.chat_id):
        raise ChatError(
            "Only the last answer of a chat can be continued.",
            hint="Send a message that asks for the rest.",
        )
    return conversation.messages[-1].text
