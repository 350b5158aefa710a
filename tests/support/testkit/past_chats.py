"""Chats of earlier runs, written straight into the history."""

from __future__ import annotations

from collections.abc import Sequence

from localpaged.store.rows import Chat, Message, Turn, TurnStatus
from localpaged.store.store import Store, new_id
from localpaged.store.tree import make_message
from localpaged.store.writes import Write

STARTED_AT = 1_700_000_000.0


def write_chat(
    turns: Sequence[tuple[str, str]],
    *,
    title: str = "past",
    system: str = "",
    last_status: TurnStatus = TurnStatus.DONE,
    choice: str = "fake-model",
) -> str:
    """Write a chat of (question, answer) pairs; return its id. The history must not be open."""
    store = Store.open()
    chat_id = new_id()
    messages: list[Message] = []
    rows: list[Turn] = []
    if system:
        messages.append(make_message(None, "system", system))
    for number, (question, answer) in enumerate(turns):
        tip = messages[-1].hash if messages else None
        asked = make_message(tip, "user", question)
        answered = make_message(asked.hash, "assistant", answer)
        messages += [asked, answered]
        is_last = number == len(turns) - 1
        rows.append(
            Turn(
                id=new_id(),
                chat_id=chat_id,
                parent_hash=asked.hash,
                tip_hash=answered.hash,
                status=last_status if is_last else TurnStatus.DONE,
                model="fake-model",
                created_at=STARTED_AT + number,
                finished_at=STARTED_AT + number,
            )
        )
    tip = messages[-1].hash if messages else None
    chat = Chat(chat_id, title, tip, choice, "", STARTED_AT, STARTED_AT + len(turns))
    store.submit(Write(messages=messages, new_chats=(chat,), turns=rows)).result(timeout=10)
    failure = store.close()
    assert failure is None
    return chat_id
