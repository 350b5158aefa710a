"""A chat is answered by the model it chose: opened, loaded, replaced or refused, one beside others.

The engine is scripted: it answers whoever it is asked for, as long as that model is loaded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.cache_report import CacheCause
from localpaged.chat.events import (
    ModelFailed,
    ModelLoading,
    ModelReady,
    ModelUnloaded,
    TurnCacheReport,
    TurnModelMissing,
)
from localpaged.chat.models import ModelChoice
from localpaged.chat.service import ChatService
from localpaged.errors import BadModelFile, ChatError, NoRoom
from localpaged.store.rows import Chat, TurnStatus
from testkit.builders import Recorder, make_service
from testkit.fake_shelf import FILE_BYTES, FakeShelf
from testkit.scripted_engine import ScriptedEngine

Play = tuple[ChatService, ScriptedEngine, Recorder, FakeShelf]


@pytest.fixture
def play(database_path: Path) -> Play:
    shelf = FakeShelf("fake-model", "other", "slow", slow=("slow",))
    engine = ScriptedEngine(lambda request: [f"by {request.model or 'default'}"])
    service, engine, recorder = make_service(database_path, engine=engine, shelf=shelf)
    return service, engine, recorder, shelf


def chat_with(service: ChatService, model: str) -> Chat:
    return service.configure(service.new_chat().id, model=model)


def answer(play: Play, chat: Chat, text: str = "question") -> str:
    service, engine, recorder, _ = play
    num_before = len(engine.submitted)
    turn = service.send(chat.id, text)
    engine.wait_submitted(num_before + 1)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)
    return recorder.text(turn.id)


def test_a_chat_is_answered_by_the_model_it_chose_and_others_by_the_default(play: Play):
    service, engine, _recorder, _ = play
    chosen, plain, named = (chat_with(service, name) for name in ("other", "", "fake-model"))
    assert answer(play, chosen) == "by other"
    assert answer(play, plain) == "by default"
    assert answer(play, named) == "by default"
    turns = [service.transcript(chat.id)[-1].turn for chat in (chosen, plain, named)]
    assert [turn.model for turn in turns if turn] == ["other", "fake-model", "fake-model"]
    assert engine.further.asked == ["other"]
    # answering is no choice: the next run may have another default
    assert service.transcript(plain.id) and service._store.chat(plain.id).model == ""
    service.close()


def test_models_tell_what_is_loaded_and_how_big_it_is(play: Play):
    service, engine, _recorder, _ = play
    default = ModelChoice("fake-model", FILE_BYTES, is_loaded=True, is_default=True)
    other, slow = ModelChoice("other", FILE_BYTES), ModelChoice("slow", FILE_BYTES)
    assert service.models() == [default, other, slow]

    engine.further.holds_back = True
    service.load_model("other")
    engine.step()
    assert service.models()[1] == ModelChoice("other", FILE_BYTES, is_loading=True)
    engine.further.holds_back = False
    engine.step()
    assert service.models()[1] == ModelChoice("other", FILE_BYTES, is_loaded=True)
    assert service.snapshot("other").model_name == "other"
    assert service.snapshot().model_name == service.snapshot("fake-model").model_name

    service.unload_model("other")
    engine.step()
    assert service.models()[1] == other
    assert service.snapshot("other").total_blocks == 0
    with pytest.raises(ChatError, match="stays loaded"):
        service.unload_model("fake-model")
    service.close()


def test_events_of_further_models_carry_their_name_and_those_of_the_default_none(play: Play):
    service, engine, recorder, _ = play
    assert answer(play, chat_with(service, "other")) == "by other"
    service.unload_model("other")
    engine.step()
    assert [event.model_name for event in recorder.of(ModelReady)] == ["", "other"]
    assert {event.model_name for event in recorder.of(ModelLoading)} == {"", "other"}
    assert recorder.of(ModelUnloaded) == [ModelUnloaded("other")]
    late = Recorder()
    service.subscribe(late)
    assert [event.model_name for event in late.of(ModelReady)] == [""]
    service.close()


def test_a_turn_waits_while_its_model_is_opened_and_others_do_not(play: Play):
    service, engine, recorder, shelf = play
    waiting = service.send(chat_with(service, "slow").id, "question")
    assert answer(play, chat_with(service, "")) == "by default"
    assert not recorder.text(waiting.id)
    shelf.arrive("slow")
    engine.wait_submitted(2)
    engine.run_until_idle()
    recorder.wait_ended(waiting.id)
    assert recorder.text(waiting.id) == "by slow"
    service.close()


def test_a_model_that_cannot_be_opened_fails_the_turn_with_its_sentence(play: Play):
    service, _engine, recorder, shelf = play
    turn = service.send(chat_with(service, "slow").id, "question")
    shelf.arrive("slow", BadModelFile("slow.gguf is cut."))
    ended = recorder.wait_ended(turn.id)
    assert ended.status is TurnStatus.ERROR
    assert ended.error is not None and "slow.gguf is cut" in ended.error.message
    assert answer(play, chat_with(service, "")) == "by default"
    service.close()


def test_a_model_that_does_not_fit_fails_its_turns_alone_and_may_fit_later(play: Play):
    service, engine, recorder, _ = play
    engine.further.load_errors["other"] = NoRoom("other needs 4.50 GiB; 4.00 GiB are free.")
    chat = chat_with(service, "other")
    refused = service.send(chat.id, "question")
    running = service.send(chat_with(service, "").id, "question")
    engine.wait_submitted(2)
    engine.run_until_idle()
    ended = recorder.wait_ended(refused.id)
    assert ended.error is not None and "4.50 GiB" in ended.error.message
    assert recorder.wait_ended(running.id).status is TurnStatus.DONE
    assert [event.model_name for event in recorder.of(ModelFailed)] == ["other"]
    engine.further.load_errors.clear()
    assert answer(play, chat) == "by other"
    service.close()


def test_a_model_that_is_gone_is_replaced_by_the_default_and_that_is_told(play: Play):
    service, _engine, recorder, shelf = play
    chat = chat_with(service, "other")
    assert answer(play, chat) == "by other"
    shelf.names.remove("other")
    assert answer(play, chat) == "by default"
    missing = recorder.wait_for(TurnModelMissing)
    assert (missing.chat_id, missing.chosen, missing.default) == (chat.id, "other", "fake-model")
    # the choice stays: the model may come back
    assert service._store.chat(chat.id).model == "other"
    service.close()


def test_a_stopped_turn_leaves_the_queue_of_a_model_that_still_loads(play: Play):
    service, engine, recorder, _ = play
    engine.further.holds_back = True
    turn = service.send(chat_with(service, "other").id, "question")
    engine.wait_submitted(1)
    engine.step()
    service.stop(turn.id)
    engine.step()
    assert recorder.wait_ended(turn.id).status is TurnStatus.STOPPED
    service.close()


def test_what_one_model_computed_is_nothing_to_another_and_is_found_on_return(play: Play):
    service, _engine, recorder, _ = play
    chat = service.new_chat()
    causes = []
    for model in ("", "other", "", "other"):
        service.configure(chat.id, model=model)
        answer(play, chat, "a question that fills a block of sixteen tokens")
        causes.append(recorder.of(TurnCacheReport)[-1].report)
    assert [report.cause for report in causes] == [
        CacheCause.FIRST_TURN,
        CacheCause.OTHER_NAMESPACE,
        CacheCause.NOTHING,
        CacheCause.NOTHING,
    ]
    assert causes[1].matched_tokens == 0
    # what its own first answer left, not what the other model read in between
    assert 0 < causes[2].matched_tokens < causes[3].matched_tokens
    service.close()
