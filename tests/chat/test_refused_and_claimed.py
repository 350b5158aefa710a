"""What never ran weighs on no later prompt; two programs never answer one chat at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.errors import PromptTooLong, StoreError
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from localpaged.store.writes import Write
from testkit.builders import make_service
from testkit.fake_model import read_prompt
from testkit.scripted_engine import Answer, ScriptedEngine


def test_a_refused_question_is_shown_but_not_asked_again(database_path: Path):
    refused = Answer((), error=PromptTooLong("10,047 tokens; the context holds 8,192."))
    answers = iter([refused, Answer(("fine",))])
    scripted = ScriptedEngine(lambda request: next(answers))
    service, engine, recorder = make_service(database_path, engine=scripted)
    chat = service.new_chat()
    for number, text in enumerate(("far too long", "short"), start=1):
        turn = service.send(chat.id, text)
        engine.wait_submitted(number)
        engine.run_until_idle()
        recorder.wait_ended(turn.id)
    asked = [text for _, text in read_prompt(engine.submitted[1].prompt_ids)]
    assert "far too long" not in asked
    shown = [exchange.message.text for exchange in service.transcript(chat.id) if exchange.message]
    assert "far too long" in shown
    service.close()


def test_a_chat_claimed_by_a_living_run_is_refused_in_the_transaction(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    turn = service.send(chat.id, "first")
    engine.wait_submitted(1)
    other = Store.open(database_path)
    claim = other.submit(Write(claimed_chat=chat.id))
    with pytest.raises(StoreError, match="answered in another"):
        claim.result(timeout=10)
    engine.run_until_idle()
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    service.close()
    other.submit(Write(claimed_chat=chat.id)).result(timeout=10)
    other.close()
