"""From a message to its saved answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localpaged.chat.events import ModelLoading, ModelReady, TurnPrefill, TurnText
from localpaged.engine.events import TokenEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError, EngineError, NotInHistory, PromptTooLong
from localpaged.store.database import connect
from localpaged.store.rows import TurnStatus
from testkit.builders import make_service, texts
from testkit.fake_model import read_prompt
from testkit.scripted_engine import LOAD_STAGES, Answer, ScriptedEngine


@pytest.mark.parametrize(("seed", "may_guess"), [(7, False), (None, True)])
def test_an_answer_that_is_to_come_again_is_made_without_guessing(
    database_path: Path, seed: int | None, may_guess: bool
):
    # Whether guessing pays is measured, and tokens checked together are rounded otherwise.
    cut = Answer(("a", "b"), reason=FinishReason.LENGTH)
    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([cut]))
    chat = service.new_chat()
    service.configure(chat.id, options={} if seed is None else {"seed": seed})
    turn = service.send(chat.id, "q")
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)
    service.continue_turn(turn.id)
    engine.wait_submitted(2)
    assert [request.speculation for request in engine.submitted] == [may_guess] * 2
    service.close()


def test_a_message_is_answered_streamed_and_saved(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat(system="Be brief.")
    turn = service.send(chat.id, "Who are you?", sampling=SamplingParams(seed=7))
    assert turn.status is TurnStatus.QUEUED
    engine.wait_submitted(1)
    engine.run_until_idle()
    end = recorder.wait_ended(turn.id)

    assert (end.status, end.finish_reason, end.error) == (TurnStatus.DONE, FinishReason.STOP, None)
    assert recorder.text(turn.id) == "Hello, world."
    assert texts(service, chat.id) == ["Be brief.", "Who are you?", "Hello, world."]
    service.close()

    service, _, _ = make_service(database_path)
    system, user, answer = service.transcript(chat.id)
    assert (system.turn, user.turn) == (None, None)
    assert answer.message is not None and answer.turn is not None
    assert answer.turn.tip_hash == answer.message.hash
    assert answer.turn.parent_hash == answer.message.parent_hash
    saved = answer.turn
    assert end.usage is not None
    assert (saved.status, saved.finish_reason) == (TurnStatus.DONE, "stop")
    assert (saved.prompt_tokens, saved.cached_tokens) == (end.usage.prompt_tokens, 0)
    assert (saved.completion_tokens, saved.ttft_s) == (4, end.usage.ttft_s)
    assert (saved.decode_s, saved.seed, saved.model) == (end.usage.decode_s, 7, "fake-model")
    assert json.loads(saved.options)["seed"] == 7
    assert saved.finished_at is not None and saved.finished_at >= saved.created_at
    service.close()


def test_the_message_is_on_the_disk_before_the_model_runs(database_path: Path):
    service, engine, _ = make_service(database_path)
    chat = service.new_chat()
    service.send(chat.id, "durable?")
    engine.wait_submitted(1)
    rows = connect(database_path, is_reader=True).execute(
        "SELECT coalesce(turns.question, parts.text) FROM turns"
        " LEFT JOIN parts ON parts.message_hash = turns.parent_hash"
    )
    assert rows.fetchall() == [("durable?",)]
    service.close()


def test_the_prompt_is_the_path_of_the_tree_system_first(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat(system="Be brief.")
    for number, text in enumerate(("one", "two"), start=1):
        turn = service.send(chat.id, text)
        request = engine.wait_submitted(number)
        engine.run_until_idle()
        recorder.wait_ended(turn.id)
    assert read_prompt(request.prompt_ids) == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "Hello, world."),
        ("user", "two"),
        ("assistant", ""),
    ]
    assert request.chat_id == chat.id
    service.close()


def test_a_request_carries_its_sampling_and_a_seed_that_is_kept(database_path: Path):
    service, engine, _ = make_service(database_path)
    chat = service.new_chat()
    sampling = SamplingParams(temperature=0.2, max_tokens=9, stop=("END",))
    turn = service.send(chat.id, "hi", sampling=sampling, is_foreground=False)
    request = engine.wait_submitted(1)
    assert (request.sampling.temperature, request.sampling.max_tokens) == (0.2, 9)
    assert request.sampling.stop == ("END",)
    assert request.sampling.seed == turn.seed is not None
    assert not request.is_foreground
    service.close()


def test_prefill_and_text_events_tell_where_an_answer_stands(database_path: Path):
    engine = ScriptedEngine([["ab", "", "cd"]], prefill_tokens_per_step=4)
    service, _, recorder = make_service(database_path, engine=engine)
    turn = service.send(service.new_chat().id, "question")
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)

    progress = recorder.of(TurnPrefill)
    assert [event.computed_tokens for event in progress] == [4, 8, 11]
    assert {event.prompt_tokens for event in progress} == {11}
    pieces = [(e.text, e.token_count, e.offset) for e in recorder.of(TurnText)]
    assert pieces == [("ab", 1, 0), ("cd", 3, 2)]
    service.close()


def test_the_transcript_follows_an_answer_through_its_states(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    turn = service.send(chat.id, "question")
    engine.wait_submitted(1)
    states = []
    for _ in range(3):
        (_, open_line) = service.transcript(chat.id)
        assert open_line.turn is not None and open_line.message is None
        states.append((open_line.turn.status, open_line.turn.partial_text))
        engine.step()
    assert states == [
        (TurnStatus.QUEUED, ""),
        (TurnStatus.PREFILL, ""),
        (TurnStatus.STREAMING, "Hello"),
    ]
    engine.run_until_idle()
    recorder.wait_ended(turn.id)
    service.close()


def test_several_chats_are_answered_at_the_same_time(database_path: Path):
    service, engine, recorder = make_service(
        database_path, engine=ScriptedEngine(lambda request: [request.chat_id, "!"])
    )
    chats = [service.new_chat() for _ in range(8)]
    turns = [service.send(chat.id, "hi") for chat in chats]
    engine.wait_submitted(8)
    engine.step()
    assert len(engine.snapshot().sequences) == 8 == len(service.snapshot().sequences)
    engine.run_until_idle()
    for chat, turn in zip(chats, turns, strict=True):
        recorder.wait_ended(turn.id)
        assert texts(service, chat.id) == ["hi", f"{chat.id}!"]
    service.close()


def test_an_answer_that_fails_keeps_its_text_and_tells_why(database_path: Path):
    error = EngineError("The step failed.", hint="Try again.")
    engine = ScriptedEngine([Answer(("half ", "way"), error=error), ["fine"]])
    service, _, recorder = make_service(database_path, engine=engine)
    chat = service.new_chat()
    turn = service.send(chat.id, "question")
    engine.wait_submitted(1)
    engine.run_until_idle()
    end = recorder.wait_ended(turn.id)
    assert (end.status, end.error, end.usage) == (TurnStatus.ERROR, error, None)

    line = service.transcript(chat.id)[-1]
    assert line.message is not None and line.message.text == "half way"
    assert line.turn is not None
    assert (line.turn.status, line.turn.error) == (TurnStatus.ERROR, "The step failed.")
    assert (line.turn.completion_tokens, line.turn.cached_tokens) == (2, 0)
    assert line.turn.prompt_tokens == 11

    after = service.send(chat.id, "and now?")
    engine.wait_submitted(2)
    engine.run_until_idle()
    assert recorder.wait_ended(after.id).status is TurnStatus.DONE
    service.close()


def test_a_prompt_that_is_too_long_is_an_error_of_its_turn(database_path: Path):
    service, engine, recorder = make_service(database_path)
    turn = service.send(service.new_chat().id, "x" * 9_000)
    engine.wait_submitted(1)
    engine.step()
    end = recorder.wait_ended(turn.id)
    assert end.status is TurnStatus.ERROR
    assert isinstance(end.error, PromptTooLong)
    service.close()


@pytest.mark.parametrize("nothing", ["", "  \n\t "])
def test_nothing_is_not_sent(database_path: Path, nothing: str):
    service, engine, _ = make_service(database_path)
    chat = service.new_chat()
    with pytest.raises(ChatError, match="nothing to send"):
        service.send(chat.id, nothing)
    assert engine.submitted == []
    assert service.transcript(chat.id) == []
    service.close()


def test_a_chat_that_is_not_there_cannot_be_asked(database_path: Path):
    service, _, _ = make_service(database_path)
    with pytest.raises(NotInHistory):
        service.send("nope", "hi")
    service.close()


def test_unstorable_text_from_user_and_model_is_shown_as_it_is_saved(database_path: Path):
    engine = ScriptedEngine([["bad \ud83d", "\0 end"]])
    service, _, recorder = make_service(database_path, engine=engine)
    chat = service.new_chat(title="t\ud83d", system="s\0")
    turn = service.send(chat.id, "hello \ud83d")
    request = engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)
    assert read_prompt(request.prompt_ids)[1] == ("user", "hello \ufffd")
    assert recorder.text(turn.id) == "bad \ufffd\ufffd end"
    assert texts(service, chat.id) == ["s\ufffd", "hello \ufffd", "bad \ufffd\ufffd end"]
    service.close()


def test_loading_and_readiness_are_passed_on(database_path: Path):
    service, _, recorder = make_service(database_path)
    assert [event.event for event in recorder.of(ModelLoading)] == list(LOAD_STAGES)
    assert recorder.of(ModelReady)[0].event.model_name == "fake-model"
    service.close()


def test_requests_of_others_are_left_alone(database_path: Path):
    service, engine, recorder = make_service(database_path)
    before = recorder.events
    engine._emit([TokenEvent("somebody else's", (1,), "text")])
    assert recorder.events == before
    service.close()


def test_a_broken_subscriber_does_not_end_the_answers_of_others(database_path: Path):
    service, engine, recorder = make_service(database_path)
    fails = []

    def broken(events: object) -> None:
        fails.append(events)
        raise RuntimeError("broken")

    service.subscribe(broken)
    turn = service.send(service.new_chat().id, "hi")
    engine.wait_submitted(1)
    engine.run_until_idle()
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    assert fails
    service.close()
