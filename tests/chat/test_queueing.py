"""Messages behind a running answer, stopping early and late."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

from localpaged.chat.service import ChatService
from localpaged.engine.finish_reason import FinishReason
from localpaged.prompt import ChatModel
from localpaged.store.rows import TurnStatus
from testkit.builders import make_service, texts
from testkit.fake_model import FakeChatModel, read_prompt
from testkit.scripted_engine import ScriptedEngine


def statuses(service: ChatService, chat_id: str) -> list[TurnStatus]:
    return [line.turn.status for line in service.transcript(chat_id) if line.turn]


def test_messages_wait_behind_a_running_answer_in_order(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    turns = [service.send(chat.id, text) for text in ("one", "two", "three")]
    engine.wait_submitted(1)

    assert texts(service, chat.id) == ["one", None, "two", None, "three", None]
    assert statuses(service, chat.id) == [TurnStatus.QUEUED] * 3
    waiting = service.transcript(chat.id)[2].message
    assert waiting is not None and waiting.hash == f"waiting:{turns[1].id}"

    for number, turn in enumerate(turns, start=1):
        engine.wait_submitted(number)
        assert len(engine.submitted) == number
        engine.run_until_idle()
        recorder.wait_ended(turn.id)

    answer = "Hello, world."
    assert texts(service, chat.id) == ["one", answer, "two", answer, "three", answer]
    assert [role for role, _ in read_prompt(engine.submitted[2].prompt_ids)] == [
        *("user", "assistant") * 3
    ]
    service.close()


def test_stopping_a_stream_keeps_its_text(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    turn = service.send(chat.id, "question")
    engine.wait_submitted(1)
    engine.step()
    engine.step()
    service.stop(turn.id)
    engine.step()
    end = recorder.wait_ended(turn.id)
    assert (end.status, end.finish_reason) == (TurnStatus.STOPPED, FinishReason.CANCELLED)
    assert end.usage is not None and end.usage.completion_tokens == 1
    assert texts(service, chat.id) == ["question", "Hello"]
    assert statuses(service, chat.id) == [TurnStatus.STOPPED]
    service.close()


def test_stopping_before_the_first_token_leaves_an_empty_answer(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    turn = service.send(chat.id, "question")
    engine.wait_submitted(1)
    service.stop(turn.id)
    engine.step()
    assert recorder.wait_ended(turn.id).status is TurnStatus.STOPPED
    assert texts(service, chat.id) == ["question", ""]
    service.close()


def test_stopping_before_the_model_is_there_works_too(database_path: Path):
    model: Future[ChatModel] = Future()
    service, engine, recorder = make_service(database_path, model=model)
    chat = service.new_chat()
    turn = service.send(chat.id, "question")
    service.stop(turn.id)
    assert recorder.wait_ended(turn.id).status is TurnStatus.STOPPED
    model.set_result(FakeChatModel())
    next_turn = service.send(chat.id, "next")
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(next_turn.id)
    assert len(engine.submitted) == 1
    assert texts(service, chat.id) == ["question", "", "next", "Hello, world."]
    service.close()


def test_stopping_a_waiting_message_keeps_it_in_its_place(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    first, second, third = (service.send(chat.id, text) for text in ("one", "two", "three"))
    engine.wait_submitted(1)
    service.stop(second.id)
    assert recorder.wait_ended(second.id).status is TurnStatus.STOPPED
    assert statuses(service, chat.id)[1] is TurnStatus.STOPPED
    assert texts(service, chat.id) == ["one", None, "two", None, "three", None]

    engine.run_until_idle()
    recorder.wait_ended(first.id)
    request = engine.wait_submitted(2)
    engine.run_until_idle()
    recorder.wait_ended(third.id)
    answer = "Hello, world."
    assert texts(service, chat.id) == ["one", answer, "two", "", "three", answer]
    # What never ran weighs on no later prompt.
    assert read_prompt(request.prompt_ids)[-3:] == [
        ("assistant", answer),
        ("user", "three"),
        ("assistant", ""),
    ]
    service.close()


def test_stopping_the_running_answer_lets_the_next_message_go(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    first, second = (service.send(chat.id, text) for text in ("one", "two"))
    engine.wait_submitted(1)
    service.stop(first.id)
    engine.step()
    recorder.wait_ended(first.id)
    engine.wait_submitted(2)
    engine.run_until_idle()
    assert recorder.wait_ended(second.id).status is TurnStatus.DONE
    service.close()


def test_stopping_twice_or_what_has_ended_changes_nothing(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    turn = service.send(chat.id, "question")
    engine.wait_submitted(1)
    service.stop(turn.id)
    service.stop(turn.id)
    engine.step()
    end = recorder.wait_ended(turn.id)
    before = service.transcript(chat.id)
    service.stop(turn.id)
    service.stop("nobody's")
    assert service.transcript(chat.id) == before
    assert recorder.wait_ended(turn.id) == end
    service.close()


def test_an_end_that_crosses_a_stop_counts(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([["all"]]))
    turn = service.send(service.new_chat().id, "question")
    engine.wait_submitted(1)
    engine.run_until_idle()
    service.stop(turn.id)
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    service.close()


def test_callers_on_many_threads_get_their_order(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    turns = []

    def ask(number: int) -> None:
        turns.append(service.send(chat.id, str(number)))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    for number in range(1, 11):
        engine.wait_submitted(number)
        engine.run_until_idle()
    for turn in turns:
        recorder.wait_ended(turn.id)
    asked = [text for text in texts(service, chat.id) if text != "Hello, world."]
    assert sorted(asked, key=str) == sorted(map(str, range(10)))
    assert len(texts(service, chat.id)) == 20
    service.close()
