"""A chat that has filled its context: what can be done is counted, and does what it says."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from localpaged.chat.cache_report import CacheCause
from localpaged.chat.context_room import SUMMARY_REQUEST
from localpaged.chat.events import TurnCacheReport, TurnEnded
from localpaged.engine.events import ReadyEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError, PromptTooLong
from testkit.builders import WAIT_S, make_service, ready_model
from testkit.fake_model import FakeChatModel, read_prompt
from testkit.past_chats import write_chat
from testkit.scripted_engine import Answer, ScriptedEngine

LIMIT = 600


class Full:
    """A chat of three exchanges whose fourth question does not fit."""

    def __init__(self, path: Path, *, script=(tuple("a" * 50),), limit: int = LIMIT) -> None:
        engine = ScriptedEngine(
            script, ready=ReadyEvent("fake-model", "cpu", "float32", limit, 0.1)
        )
        self.service, self.engine, self.recorder = make_service(path, engine=engine)
        self.chat = self.service.new_chat(system="s" * 20)
        self.count = 0

    def ask(self, text: str, chat_id: str = "", **sampling):
        turn = self.service.send(
            chat_id or self.chat.id,
            text,
            sampling=SamplingParams(**sampling) if sampling else None,
        )
        return turn, self.ended()

    def ended(self) -> TurnEnded:
        self.count += 1
        self.engine.wait_submitted(self.count)
        self.engine.run_until_idle()
        return self.recorder.wait_for(TurnEnded, count=self.count)

    def filled(self, num_exchanges: int = 3, num_chars: int = 260) -> Full:
        for number in range(num_exchanges):
            self.ask(f"{number}" * 70)
        self.turn, self.end = self.ask("q" * num_chars)
        return self

    def room(self, chat_id: str = ""):
        return self.service.context.room(chat_id or self.chat.id).result(WAIT_S)

    def texts(self, number: int = -1):
        return [text for _, text in read_prompt(self.engine.submitted[number].prompt_ids)]


@pytest.fixture
def full(database_path: Path):
    chat = Full(database_path).filled()
    yield chat
    chat.service.close()


def test_the_numbers_are_those_of_the_prompts_that_would_be_sent(full):
    assert isinstance(full.end.error, PromptTooLong)
    room = full.room()
    assert (room.is_refused, room.question, room.context_length) == (True, "q" * 260, LIMIT)
    assert room.prompt_tokens == len(full.engine.submitted[-1].prompt_ids) > LIMIT
    assert room.slide is not None
    # the question and as many exchanges before it as leave a quarter of the context free
    assert (room.slide.num_hidden, room.slide.prompt_tokens) == (4, 22 + 72 + 52 + 262 + 1)
    # system text and the first sign of a question are read already
    assert room.slide.new_tokens == room.slide.prompt_tokens - 23
    assert [place.tokens for place in room.places] == [22 + 72 + 51 + 124 * n for n in range(3)]
    turn = full.service.transcript(full.chat.id)[-1].turn
    assert turn is not None and turn.prompt_tokens == room.prompt_tokens


def test_a_slid_view_sends_the_question_again_without_the_oldest(full):
    room = full.room()
    full.service.context.begin_view(full.chat.id, room.slide.view_hash)
    full.service.continue_turn(full.turn.id)
    end = full.ended()
    assert end.error is None
    assert full.texts()[:-1] == ["s" * 20, "2" * 70, "a" * 50, "q" * 260]
    assert len(full.engine.submitted[-1].prompt_ids) == room.slide.prompt_tokens
    assert len(full.service.transcript(full.chat.id)) == 9
    full.service.context.begin_view(full.chat.id, None)
    full.ask("x")
    assert len(full.texts()) == 11


def test_a_view_begins_at_a_message_of_the_chat(full):
    with pytest.raises(ChatError):
        full.service.context.begin_view(full.chat.id, "b2:none")


def test_a_summary_is_a_fork_whose_view_begins_with_it(database_path: Path):
    full = Full(database_path, limit=1_000).filled(5, 370)
    summary = full.room().summary
    assert summary is not None
    assert (summary.num_messages, len(summary.rest_hashes)) == (8, 2)
    fork = full.service.fork(full.chat.id, summary.at_hash)
    turn, end = full.ask(SUMMARY_REQUEST, fork.id)
    assert end.error is None
    assert end.usage is not None and end.usage.prompt_tokens == summary.prompt_tokens
    full.service.context.follow_summary(fork.id, summary_id=turn.id, rest=summary.rest_hashes)
    _, end = full.ask("q" * 370, fork.id)
    assert end.error is None
    answer = "a" * 50
    assert full.texts()[:-1] == [
        "s" * 20, SUMMARY_REQUEST, answer, "4" * 70, answer, "q" * 370,
    ]  # fmt: skip
    assert len(full.service.transcript(fork.id)) == 1 + 8 + 2 + 2 + 2
    full.service.close()


def test_without_a_summary_nothing_follows_it(full):
    fork = full.service.fork(full.chat.id, full.room().places[0].at_hash)
    with pytest.raises(ChatError, match="no summary"):
        full.service.context.follow_summary(fork.id, summary_id=full.turn.id, rest=())


def test_a_question_that_fills_the_context_alone_has_no_way_on(database_path: Path):
    full = Full(database_path)
    full.ask("x" * 1_000)
    room = full.room()
    assert (room.slide, room.summary, room.places) == (None, None, ())
    full.service.close()


def test_an_answer_that_the_context_cut_goes_on_after_a_slide(database_path: Path):
    cut = Answer(tuple("b" * 40), reason=FinishReason.LENGTH)
    full = Full(
        database_path, script=[tuple("a" * 50), tuple("a" * 50), cut, (" rest",)], limit=400
    )
    for number in range(2):
        full.ask(f"{number}" * 70)
    turn, _ = full.ask("q" * 70)
    room = full.room()
    assert not room.is_refused
    assert room.slide is not None
    full.service.context.begin_view(full.chat.id, room.slide.view_hash)
    full.service.continue_turn(turn.id)
    full.ended()
    assert full.texts()[-2:] == ["q" * 70, "b" * 40]
    assert full.texts()[1] == "1" * 70
    full.service.close()


def test_an_empty_chat_and_a_running_one_are_refused(database_path: Path):
    full = Full(database_path)
    with pytest.raises(ChatError, match="Nothing has been asked"):
        full.room()
    full.service.send(full.chat.id, "q")
    full.engine.wait_submitted(1)
    with pytest.raises(ChatError, match="still running"):
        full.room()
    full.service.close()


def test_a_moved_view_is_why_a_prompt_was_computed_again(full):
    def cause(turn_id: str) -> CacheCause:
        reports = full.recorder.of(TurnCacheReport)
        causes: list[CacheCause] = [e.report.cause for e in reports if e.turn_id == turn_id]
        return causes[-1]

    full.service.context.begin_view(full.chat.id, full.room().slide.view_hash)
    full.service.continue_turn(full.turn.id)
    full.ended()
    assert cause(full.turn.id) is CacheCause.VIEW_MOVED
    turn, _ = full.ask("x" * 20)
    assert cause(turn.id) is CacheCause.NOTHING
    last = full.service.transcript(full.chat.id)[-2].message
    assert last is not None
    full.service.context.begin_view(full.chat.id, last.hash)
    turn, _ = full.ask("y" * 20)
    assert cause(turn.id) is CacheCause.VIEW_MOVED


def test_a_view_that_is_taken_back_is_why_as_well(database_path: Path):
    full = Full(database_path)
    for number in range(3):
        full.ask(f"{number}" * 20)
    last = full.service.transcript(full.chat.id)[-2].message
    assert last is not None
    full.service.context.begin_view(full.chat.id, last.hash)
    full.ask("x" * 20)
    full.service.context.begin_view(full.chat.id, None)
    full.service.close()
    # another run knows what was read last, and no more
    again = Full(database_path)
    again.service.delete(again.chat.id)
    again.ask("y" * 20, full.chat.id)
    causes = [event.report.cause for event in again.recorder.of(TurnCacheReport)]
    assert causes == [CacheCause.VIEW_MOVED]
    again.service.close()


class Counting(FakeChatModel):
    """Counts how often a prompt is made."""

    num_renders = 0

    def render(self, *args, **options):
        self.num_renders += 1
        return super().render(*args, **options)


def test_a_chat_far_beyond_the_context_is_rendered_a_few_times_alone(database_path: Path):
    chat_id = write_chat([(f"{number:03}", "a" * 30) for number in range(200)])
    model = Counting()
    engine = ScriptedEngine(ready=ReadyEvent("fake-model", "cpu", "float32", LIMIT, 0.1))
    service, _, recorder = make_service(database_path, engine=engine, model=ready_model(model))
    with closing(service):
        service.send(chat_id, "q" * 99)
        engine.wait_submitted(1)
        engine.run_until_idle()
        recorder.wait_for(TurnEnded)
        model.num_renders = 0
        room = service.context.room(chat_id).result(WAIT_S)
        assert room.slide is not None and room.is_refused
        assert model.num_renders < 60
