"""What is remembered of a chat's prompts, and what is saved of them."""

from __future__ import annotations

import pytest

from localpaged.chat.cache_report import CacheCause
from testkit.cached_chats import ANSWER, Chatting
from testkit.fake_model import piece_id

BLOCK = 16


def test_what_is_saved_of_a_prompt_is_what_is_new_in_it(chatting: Chatting):
    chatting.ask("x" * 2_000)
    chatting.ask("More?")
    chatting.go_to(chatting.messages[2])
    chatting.ask("Less?")
    store = chatting.service._store
    assert store.writer.flush()

    sizes = [
        row["size"]
        for row in store._reader().query(
            "SELECT length(tail_ids) / 4 AS size FROM prompts ORDER BY turn_id"
        )
    ]
    assert sizes[0] > 2_000
    assert max(sizes[1:]) < 20


def test_a_chat_that_was_forgotten_for_others_is_read_from_the_history(
    chatting: Chatting, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("localpaged.chat.cache_watch.REMEMBERED_CHATS", 1)
    chat = chatting.chat
    chatting.ask()
    chatting.begin().ask()
    chatting.chat = chat

    report = chatting.ask("More?")

    assert report.cause is CacheCause.NOTHING
    assert report.agreed_tokens > BLOCK


def test_only_so_many_branches_are_remembered(chatting: Chatting):
    chatting.ask("The first question is here.")
    start = chatting.messages[2]
    tips = []
    for number in range(6):
        chatting.go_to(start)
        chatting.ask(f"{number} is the number of my question.")
        tips.append(chatting.messages[-1])
    chatting.go_to(tips[0])
    assert chatting.ask("And?").cause is CacheCause.EDITED
    chatting.go_to(tips[-1])
    assert chatting.ask("And?").parting is None


def test_what_was_sent_is_put_together_again_from_the_history(chatting: Chatting):
    for text in ("One?", "Two?", "Three?"):
        chatting.ask(text)
    chatting.go_to(chatting.messages[2])
    chatting.ask("Four?")

    sent = chatting.service._store.last_sent(chatting.chat.id)

    request = chatting.engine.submitted[-1]
    answer = b"".join(piece_id(piece).to_bytes(4, "little") for piece in ANSWER.pieces)
    prompt = b"".join(id_.to_bytes(4, "little") for id_ in request.prompt_ids)
    assert sent is not None
    assert sent.ids == prompt + answer
    assert sent.prompt.num_computed == len(request.prompt_ids) + len(ANSWER.pieces) - 1
