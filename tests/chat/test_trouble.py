"""A model that is late or never comes, an engine that dies, a disk that is full, closing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from localpaged.chat.events import ModelFailed, SavingFailed, SavingRecovered, TurnEnded
from localpaged.chat.service import ChatService
from localpaged.errors import (
    BadModelFile,
    ChatError,
    DiskFull,
    EngineError,
    LocalPagedError,
    ModelError,
    StoreError,
)
from localpaged.prompt import ChatModel, PromptMessage
from localpaged.store.rows import Chat, TurnStatus
from localpaged.store.store import Store
from testkit.builders import (
    WAIT_S,
    Recorder,
    make_limited_store,
    make_service,
    ready_model,
)
from testkit.fake_model import FakeChatModel
from testkit.scripted_engine import Answer, ScriptedEngine


class RefusingModel(FakeChatModel):
    """Renders nothing; raises what it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def render(
        self, messages: Sequence[PromptMessage], *, continue_last: bool = False
    ) -> tuple[int, ...]:
        raise self._error


class SlowModel(FakeChatModel):
    """Renders when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_rendering = threading.Event()
        self.may_render = threading.Event()

    def render(
        self, messages: Sequence[PromptMessage], *, continue_last: bool = False
    ) -> tuple[int, ...]:
        self.is_rendering.set()
        assert self.may_render.wait(WAIT_S)
        return super().render(messages, continue_last=continue_last)


def test_messages_sent_while_the_model_loads_are_answered_when_it_is_there(database_path: Path):
    model: Future[ChatModel] = Future()
    service, engine, recorder = make_service(database_path, model=model)
    turns = [service.send(service.new_chat().id, "early") for _ in range(3)]
    assert engine.submitted == []
    model.set_result(FakeChatModel())
    engine.wait_submitted(3)
    engine.run_until_idle()
    assert {recorder.wait_ended(turn.id).status for turn in turns} == {TurnStatus.DONE}
    service.close()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BadModelFile("The file x.gguf is cut."), "The file x.gguf is cut."),
        (RuntimeError("odd"), "The model could not be loaded: odd."),
    ],
)
def test_without_a_model_every_turn_fails_and_says_why(
    database_path: Path, error: Exception, told: str
):
    model: Future[ChatModel] = Future()
    service, engine, recorder = make_service(database_path, model=model)
    chat = service.new_chat()
    early = [service.send(chat.id, text) for text in ("one", "two")]
    model.set_exception(error)
    failed = recorder.wait_for(ModelFailed)
    assert failed.error.message == told
    late = service.send(chat.id, "three")
    for turn in (*early, late):
        end = recorder.wait_ended(turn.id)
        assert end.status is TurnStatus.ERROR
        assert end.error is not None and end.error.message == told
    texts = [line.message.text for line in service.transcript(chat.id) if line.message]
    assert texts == ["one", "", "two", "", "three", ""]
    assert engine.submitted == []
    service.close()


def test_a_model_that_is_given_up_is_an_error_too(database_path: Path):
    model: Future[ChatModel] = Future()
    service, _, recorder = make_service(database_path, model=model)
    model.cancel()
    assert isinstance(recorder.wait_for(ModelFailed).error, ModelError)
    service.close()


def test_when_the_engine_dies_every_turn_ends_and_keeps_its_text(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat, other = service.new_chat(), service.new_chat()
    streaming, waiting = service.send(chat.id, "one"), service.send(chat.id, "two")
    engine.wait_submitted(1)
    engine.step()
    engine.step()
    error = EngineError("Out of memory.")
    engine.fail(error)
    for turn in (streaming, waiting):
        assert recorder.wait_ended(turn.id).status is TurnStatus.ERROR
    later = service.send(other.id, "three")
    assert recorder.wait_ended(later.id).error is error
    assert len(recorder.of(ModelFailed)) == 1
    texts = [line.message.text for line in service.transcript(chat.id) if line.message]
    assert texts == ["one", "Hello", "two", ""]
    service.close()


def test_an_engine_that_dies_without_a_word_about_its_requests_ends_them_too(database_path: Path):
    service, engine, recorder = make_service(database_path)
    turn = service.send(service.new_chat().id, "one")
    engine.wait_submitted(1)
    engine.step()
    engine.step()
    engine._open.clear()
    engine.fail(EngineError("Gone."))
    assert recorder.wait_ended(turn.id).status is TurnStatus.ERROR
    answer = service.transcript(turn.chat_id)[-1].message
    assert answer is not None and answer.text == "Hello"
    service.close()


def test_a_load_that_fails_is_told_once(database_path: Path):
    error = BadModelFile("Cut.")
    model: Future[ChatModel] = Future()
    engine = ScriptedEngine(load_error=error)
    service, _, recorder = make_service(database_path, engine=engine, model=model)
    model.set_exception(error)
    turn = service.send(service.new_chat().id, "hi")
    assert recorder.wait_ended(turn.id).error is error
    assert len(recorder.of(ModelFailed)) == 1
    service.close()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ChatError("Roles must alternate."), "Roles must alternate."),
        (ZeroDivisionError("template"), "The prompt could not be made: template."),
    ],
)
def test_a_prompt_that_cannot_be_made_fails_its_turn_alone(
    database_path: Path, error: Exception, told: str
):
    service, _, recorder = make_service(database_path, model=ready_model(RefusingModel(error)))
    for text in ("one", "two"):
        end = recorder.wait_ended(service.send(service.new_chat().id, text).id)
        assert end.status is TurnStatus.ERROR
        assert end.error is not None and end.error.message == told
    service.close()


def test_an_answer_can_be_stopped_while_another_prompt_is_being_made(database_path: Path):
    slow = SlowModel()
    slow.may_render.set()
    service, engine, _ = make_service(database_path, model=ready_model(slow))
    running = service.send(service.new_chat().id, "one")
    request = engine.wait_submitted(1)
    slow.may_render.clear()
    slow.is_rendering.clear()
    service.send(service.new_chat().id, "two")
    assert slow.is_rendering.wait(WAIT_S)
    service.stop(running.id)
    assert engine.cancelled == [request.id]
    slow.may_render.set()
    service.close()


def test_an_answer_goes_on_while_the_disk_is_full_and_is_saved_later(database_path: Path):
    store, make_room = make_limited_store(database_path, spare_pages=4)
    long = "".join(f"{number} " for number in range(18_000))
    engine = ScriptedEngine([[long, "end"], ["fine"]])
    service = ChatService(store=store, engine=engine, model=ready_model())
    recorder = Recorder()
    service.subscribe(recorder)
    engine.load()
    chat = service.new_chat()
    turn = service.send(chat.id, "question")
    engine.wait_submitted(1)
    engine.run_until_idle()

    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    assert isinstance(recorder.wait_for(SavingFailed).error, DiskFull)
    answer = service.transcript(chat.id)[-1].message
    assert answer is not None and answer.text.endswith(" end")
    other = service.new_chat()
    waits = service.send(other.id, "not durable yet")
    assert len(engine.submitted) == 1

    make_room()
    recorder.wait_for(SavingRecovered)
    engine.wait_submitted(2)
    engine.run_until_idle()
    assert recorder.wait_ended(waits.id).status is TurnStatus.DONE
    assert len(recorder.of(SavingFailed)) == 1
    service.close()

    store = Store.open(database_path)
    texts = [message.text for message in store.conversation(chat.id).messages]
    assert texts == ["question", f"{long}end"]
    texts = [message.text for message in store.conversation(other.id).messages]
    assert texts == ["not durable yet", "fine"]
    store.close()


def test_closing_on_a_full_disk_is_clean_and_told(database_path: Path):
    store, _ = make_limited_store(database_path, spare_pages=4)
    engine = ScriptedEngine([["x" * 100_000]])
    service = ChatService(store=store, engine=engine, model=ready_model())
    recorder = Recorder()
    service.subscribe(recorder)
    engine.load()
    chat = service.new_chat()
    turn = service.send(chat.id, "question")
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)
    service.close()
    assert isinstance(recorder.of(SavingFailed)[-1].error, DiskFull)

    store = Store.open(database_path)
    assert store.num_interrupted == 1
    question, answer = store.conversation(chat.id).messages
    assert (question.text, answer.text) == ("question", "")
    store.close()


def test_a_message_that_can_never_be_saved_fails_its_turn(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    first = service.send(chat.id, "one")
    engine.wait_submitted(1)
    failed: Future[None] = Future()
    failed.set_exception(StoreError("The row is wrong."))
    with monkeypatch.context() as broken:
        broken.setattr(service._store, "submit", lambda operation: failed)
        turn = service.send(chat.id, "two")
        end = recorder.wait_ended(turn.id)
    assert end.status is TurnStatus.ERROR
    assert end.error is not None and end.error.message == "The row is wrong."
    engine.run_until_idle()
    assert recorder.wait_ended(first.id).status is TurnStatus.DONE
    service.close()


def test_closing_stops_every_answer_and_keeps_its_text(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat, other = service.new_chat(), service.new_chat()
    turns = [
        service.send(chat.id, "one"),
        service.send(chat.id, "two"),
        service.send(other.id, "3"),
    ]
    engine.wait_submitted(2)
    engine.step()
    engine.step()
    service.close()
    assert {end.turn_id for end in recorder.of(TurnEnded)} == {turn.id for turn in turns}
    assert {end.status for end in recorder.of(TurnEnded)} == {TurnStatus.STOPPED}
    service.close()
    with pytest.raises(ChatError, match="closed"):
        service.send(chat.id, "late")
    with pytest.raises(ChatError, match="closed"):
        service.new_chat()

    store = Store.open(database_path)
    assert store.num_interrupted == 0
    texts = [message.text for message in store.conversation(chat.id).messages]
    assert texts == ["one", "Hello", "two", ""]
    store.close()


def test_closing_before_the_model_is_there_keeps_the_messages(database_path: Path):
    model: Future[ChatModel] = Future()
    service, engine, _ = make_service(database_path, model=model)
    chat = service.new_chat()
    service.send(chat.id, "early")
    service.close()
    model.set_result(FakeChatModel())
    store = Store.open(database_path)
    assert [message.text for message in store.conversation(chat.id).messages] == ["early", ""]
    assert engine.submitted == []
    store.close()


def test_closing_ends_what_an_engine_leaves_open(database_path: Path):
    class Forgetful(ScriptedEngine):
        def close(self) -> None:
            self._open.clear()

    service, engine, recorder = make_service(database_path, engine=Forgetful())
    chat = service.new_chat()
    first, second = service.send(chat.id, "one"), service.send(chat.id, "two")
    engine.wait_submitted(1)
    engine.step()
    engine.step()
    service.close()
    assert recorder.wait_ended(first.id).status is TurnStatus.STOPPED
    assert recorder.wait_ended(second.id).status is TurnStatus.STOPPED
    store = Store.open(database_path)
    texts = [message.text for message in store.conversation(chat.id).messages]
    assert texts == ["one", "Hello", "two", ""]
    store.close()


def test_closing_saves_even_when_the_engine_cannot_be_closed(database_path: Path):
    class Stuck(ScriptedEngine):
        def close(self) -> None:
            raise LocalPagedError("stuck")

    service, engine, _ = make_service(database_path, engine=Stuck())
    chat = service.new_chat()
    service.send(chat.id, "one")
    engine.wait_submitted(1)
    with pytest.raises(LocalPagedError, match="stuck"):
        service.close()
    store = Store.open(database_path)
    assert store.num_interrupted == 0
    assert [message.text for message in store.conversation(chat.id).messages] == ["one", ""]
    store.close()


def test_an_engine_that_refuses_at_once_fails_the_turn(database_path: Path):
    class Refusing(ScriptedEngine):
        def submit(self, request: object) -> None:
            raise EngineError("No.")

    service, _, recorder = make_service(database_path, engine=Refusing([Answer()]))
    turn = service.send(service.new_chat().id, "hi")
    end = recorder.wait_ended(turn.id)
    assert end.error is not None and end.error.message == "No."
    service.close()


def test_trouble_in_one_chat_does_not_silence_the_others(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
):
    service, engine, recorder = make_service(database_path)
    chat, other = service.new_chat(), service.new_chat()
    service.send(chat.id, "one")
    waiting = service.send(chat.id, "two")
    engine.wait_submitted(1)
    read = service._store.chat

    def unreadable(chat_id: str) -> Chat:
        if chat_id == chat.id:
            raise StoreError("unreadable")
        return read(chat_id)

    monkeypatch.setattr(service._store, "chat", unreadable)
    service.stop(waiting.id)
    engine.run_until_idle()
    turn = service.send(other.id, "hi")
    engine.wait_submitted(2)
    engine.run_until_idle()
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    last = service.send(other.id, "still here?")
    service.close()
    assert recorder.wait_ended(last.id).status is TurnStatus.STOPPED

    store = Store.open(database_path)
    texts = [message.text for message in store.conversation(chat.id).messages]
    assert texts == ["one", "Hello, world.", "two", ""]
    store.close()
