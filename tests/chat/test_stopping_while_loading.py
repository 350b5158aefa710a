"""What is stopped while the model loads has stopped at once, and the model never reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.events import TurnEnded, TurnPrefill
from localpaged.chat.service import ChatService
from localpaged.engine.finish_reason import FinishReason
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from testkit.builders import Recorder, ready_model
from testkit.scripted_engine import ScriptedEngine


@pytest.fixture
def loading(database_path: Path):
    engine, recorder = ScriptedEngine(), Recorder()
    service = ChatService(store=Store.open(database_path), engine=engine, model=ready_model())
    service.subscribe(recorder)
    yield service, engine, recorder
    service.close()


def test_an_answer_ends_at_once_and_is_never_read(loading):
    service, engine, recorder = loading
    turn = service.send(service.new_chat().id, "q")
    engine.wait_submitted(1)
    service.stop(turn.id)
    assert recorder.wait_ended(turn.id).status is TurnStatus.STOPPED
    assert service.transcript(turn.chat_id)[-1].turn.status is TurnStatus.STOPPED
    engine.load()
    engine.run_until_idle()
    assert engine.cancelled == [engine.submitted[0].id] * 2
    service.send(turn.chat_id, "next")
    engine.wait_submitted(2)
    engine.run_until_idle()
    recorder.wait_for(TurnEnded, count=2)
    assert {event.turn_id for event in recorder.of(TurnPrefill)} != {turn.id}
    assert service.transcript(turn.chat_id)[1].turn.status is TurnStatus.STOPPED


def test_what_waits_behind_it_is_answered_when_the_model_is_there(loading):
    service, engine, recorder = loading
    chat = service.new_chat()
    first = service.send(chat.id, "first")
    second = service.send(chat.id, "second")
    engine.wait_submitted(1)
    service.stop(first.id)
    recorder.wait_ended(first.id)
    engine.wait_submitted(2)
    engine.load()
    engine.run_until_idle()
    end = recorder.wait_ended(second.id)
    assert (end.status, end.finish_reason) == (TurnStatus.DONE, FinishReason.STOP)


def test_it_can_be_continued_before_the_model_is_there(loading):
    service, engine, recorder = loading
    turn = service.send(service.new_chat().id, "q")
    engine.wait_submitted(1)
    service.stop(turn.id)
    recorder.wait_ended(turn.id)
    service.continue_turn(turn.id)
    engine.wait_submitted(2)
    engine.load()
    engine.run_until_idle()
    recorder.wait_for(TurnEnded, count=2)
    assert service.transcript(turn.chat_id)[-1].message.text == "Hello, world."
