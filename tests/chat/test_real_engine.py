"""Chats with a real engine over a tiny model: what was computed is found, or it is said why not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from localpaged.chat.cache_report import CacheCause, CacheReport
from localpaged.chat.events import TurnCacheReport, TurnEnded
from localpaged.chat.service import ChatService
from localpaged.engine.core import EngineCore
from localpaged.engine.engine import Engine
from localpaged.engine.events import Event, ReadyEvent, TokenEvent
from localpaged.engine.params import Request, SamplingParams
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import OpenedModel
from localpaged.prompt import ChatModel
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from localpaged.store.token_ids import unpack
from localpaged.store.writes import Write, change_chat
from testkit.builders import WAIT_S, Recorder

NUM_BLOCKS = 24
BLOCK = 16
GREEDY = SamplingParams(temperature=0.0, max_tokens=40)


class Recording:
    """An engine that keeps what it was asked and what it sampled."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.requests: list[Request] = []
        self.sampled: dict[str, tuple[int, ...]] = {}
        engine.add_listener(self._listen)

    def __getattr__(self, name: str) -> object:
        return getattr(self.engine, name)

    def submit(self, request: Request) -> None:
        self.requests.append(request)
        self.engine.submit(request)

    def sequence(self, index: int) -> tuple[int, ...]:
        request = self.requests[index]
        return (*request.prompt_ids, *self.sampled.get(request.id, ()))

    def _listen(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event, TokenEvent):
                known = self.sampled.get(event.request_id, ())
                self.sampled[event.request_id] = (*known, *event.token_ids)


class Chatting:
    """A service over a real engine."""

    def __init__(self, service: ChatService, engine: Recording, recorder: Recorder) -> None:
        self.service = service
        self.engine = engine
        self.recorder = recorder

    def ask(self, chat_id: str, text: str, sampling: SamplingParams = GREEDY) -> CacheReport:
        turn = self.service.send(chat_id, text, sampling=sampling)
        assert self.recorder.wait_ended(turn.id).status is TurnStatus.DONE
        return self.recorder.of(TurnCacheReport)[-1].report


@pytest.fixture
def chatting(tiny: Path, database_path: Path) -> Iterator[Chatting]:
    opened = open_model(tiny)
    model: Future[ChatModel] = Future()
    model.set_result(opened.chat)
    engine = Recording(Engine(lambda on_load: (_core(opened), _ready())))
    service = ChatService(store=Store.open(database_path), engine=engine, model=model)  # type: ignore[arg-type]
    recorder = Recorder()
    service.subscribe(recorder)
    engine.engine.start()
    yield Chatting(service, engine, recorder)
    service.close()


def _core(opened: OpenedModel) -> EngineCore:
    from testkit.decoders import load_decoder, make_decoder_core

    decoder, _ = load_decoder(opened.source)
    return make_decoder_core(
        decoder,
        num_blocks=NUM_BLOCKS,
        token_bytes=opened.chat.token_bytes,
        eos_ids=opened.chat.eos_ids,
    )


def _ready() -> ReadyEvent:
    return ReadyEvent("tiny", "cpu", "float32", NUM_BLOCKS * BLOCK, 0.1)


def test_a_chat_never_computes_its_history_again(chatting: Chatting):
    chat = chatting.service.new_chat(system="you are a helpful assistant")
    assert chatting.ask(chat.id, "what is the capital?").cause is CacheCause.FIRST_TURN

    for number, text in enumerate(("and of italy?", "sure?"), start=1):
        report = chatting.ask(chat.id, text)

        before = chatting.engine.sequence(number - 1)
        assert chatting.engine.requests[number].prompt_ids[: len(before)] == before
        assert report.cause is CacheCause.NOTHING
        assert report.agreed_tokens == len(before) - 1
        assert report.matched_tokens > len(before) - 1 - BLOCK


def test_a_continued_answer_is_the_answer_that_was_never_cut(chatting: Chatting):
    whole = chatting.service.new_chat()
    chatting.ask(whole.id, "count: one, two,", SamplingParams(temperature=0.0, max_tokens=30))
    cut = chatting.service.new_chat()
    chatting.ask(cut.id, "count: one, two,", SamplingParams(temperature=0.0, max_tokens=13))
    turn = chatting.service.transcript(cut.id)[-1].turn
    assert turn is not None

    chatting.service.continue_turn(turn.id, sampling=SamplingParams(temperature=0.0, max_tokens=17))
    chatting.recorder.wait_for(TurnEnded, count=3)

    assert chatting.engine.requests[2].prompt_ids == chatting.engine.sequence(1)
    assert chatting.engine.sequence(2) == chatting.engine.sequence(0)
    answers = [chatting.service.transcript(chat.id)[-1].turn for chat in (whole, cut)]
    assert answers[0] is not None and answers[1] is not None
    assert answers[0].token_ids == answers[1].token_ids
    assert (
        unpack(answers[1].token_ids or b"")
        == chatting.engine.sampled[chatting.engine.requests[0].id]
    )


def test_an_edited_question_is_computed_from_the_edit_on(chatting: Chatting):
    chat = chatting.service.new_chat(system="you are a helpful assistant of the lazy dog")
    chatting.ask(chat.id, "what is the capital of france? and of italy?")
    system = chatting.service.transcript(chat.id)[0].message
    assert system is not None
    edit = Write(chat_changes=(change_chat(chat.id, tip_hash=system.hash),))
    chatting.service._store.submit(edit).result(WAIT_S)

    report = chatting.ask(chat.id, "what is the capital of spain? and of italy?")

    assert report.cause is CacheCause.EDITED
    assert report.matched_tokens == report.agreed_tokens > BLOCK
    assert report.parting is not None
    assert report.parting.common_text.endswith("what is the capital of")
    assert report.parting.old_text.startswith(" france?")
    assert report.parting.new_text.startswith(" spain?")


def test_a_chat_whose_memory_others_took_is_told_so(chatting: Chatting):
    chat = chatting.service.new_chat(system="you are a helpful assistant of the lazy dog")
    first = chatting.ask(chat.id, "what is the capital of france?")
    other = chatting.service.new_chat()
    chatting.ask(other.id, "0123456789" * 30)

    report = chatting.ask(chat.id, "and of italy?")

    assert report.cause is CacheCause.EVICTED
    assert report.parting is None
    assert report.matched_tokens + BLOCK <= report.agreed_tokens
    assert report.agreed_tokens >= first.prompt_tokens
    assert report.is_surprising


def test_a_fork_and_an_edit_compute_only_what_is_new(chatting: Chatting):
    chat = chatting.service.new_chat(system="you are a helpful assistant of the lazy dog")
    for text in ("what is the capital?", "and of italy?"):
        chatting.ask(chat.id, text)
    before = chatting.engine.sequence(0)
    lines = chatting.service.transcript(chat.id)
    answer, second = lines[2].key, lines[3].key

    fork = chatting.service.fork(chat.id, answer)
    chatting.ask(fork.id, "sure?")
    edited = chatting.service.edit(chat.id, second, "or of spain?", sampling=GREEDY)
    assert chatting.recorder.wait_ended(edited.id).status is TurnStatus.DONE
    reports = [event.report for event in chatting.recorder.of(TurnCacheReport)[-2:]]

    for request, report in zip(chatting.engine.requests[-2:], reports, strict=True):
        # all that the first answer was made with, by its exact ids
        assert request.prompt_ids[: len(before)] == before
        assert report.matched_tokens > len(before) - 1 - BLOCK


def test_a_regenerated_answer_reads_nothing_again(chatting: Chatting):
    chat = chatting.service.new_chat(system="you are a helpful assistant of the lazy dog")
    sampling = SamplingParams(temperature=1.0, max_tokens=20)
    turn = chatting.service.send(chat.id, "what is the capital?", sampling=sampling)
    chatting.recorder.wait_ended(turn.id)

    again = chatting.service.regenerate(turn.id, sampling=sampling)
    chatting.recorder.wait_ended(again.id)

    first, second = chatting.engine.requests
    assert second.prompt_ids == first.prompt_ids
    assert second.sampling.seed != first.sampling.seed
    report = chatting.recorder.of(TurnCacheReport)[-1].report
    assert report.matched_tokens > len(first.prompt_ids) - 1 - BLOCK
    assert chatting.engine.sequence(0) != chatting.engine.sequence(1)
