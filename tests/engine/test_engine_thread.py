"""Engine: the thread around a core. Every request gets exactly one end, whatever happens."""

import threading

import pytest

from localpaged.engine.engine import Engine
from localpaged.engine.events import EngineFailedEvent, FailEvent, LoadEvent, ReadyEvent, TokenEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.inspection import BlockState
from localpaged.engine.latency import percentiles
from localpaged.errors import BadModelFile, EngineError, EngineStopped, ModelNotFound, NoRoom
from testkit.engine_runs import make_core, make_request
from testkit.fake_runner import FakeRunner, expected_answer
from testkit.watcher import Watcher

READY = ReadyEvent("fake", "cpu", "float32", 1024, 0.0)
LOAD_S = 0.3


@pytest.fixture
def watcher():
    return Watcher()


def start(watcher, load_core):
    engine = Engine(load_core)
    engine.add_listener(watcher)
    engine.start()
    return engine


def test_requests_sent_while_loading_are_answered_when_it_is_done(watcher):
    may_load = threading.Event()

    def load(on_load):
        on_load(LoadEvent("weights", 1, 2, "bytes"))
        assert may_load.wait(20)
        return make_core(), READY

    engine = start(watcher, load)
    engine.submit(make_request("early", [1, 2, 3]))
    assert watcher.wait(lambda e: isinstance(e, LoadEvent)).stage == "weights"
    may_load.set()
    assert watcher.wait(lambda e: isinstance(e, ReadyEvent)) is READY
    assert watcher.end_of("early").reason is FinishReason.LENGTH
    tokens = [t for e in watcher.events if isinstance(e, TokenEvent) for t in e.token_ids]
    assert tokens == expected_answer([1, 2, 3], 8)
    engine.close()


def test_the_time_to_the_first_token_begins_when_the_model_is_ready(watcher):
    may_load = threading.Event()

    def load(on_load):
        assert may_load.wait(20)
        return make_core(), READY

    engine = start(watcher, load)
    engine.submit(make_request("early", [1, 2, 3]))
    threading.Timer(LOAD_S, may_load.set).start()
    early = watcher.end_of("early").usage
    assert early.load_s >= 0.9 * LOAD_S > early.ttft_s > 0
    engine.submit(make_request("late", [1, 2, 3]))
    late = watcher.end_of("late").usage
    assert late.load_s == 0
    waits = percentiles(engine.snapshot().ttft_samples, [0, 100])
    assert waits == pytest.approx(sorted((early.ttft_s, late.ttft_s)))
    engine.close()


def test_a_failed_load_fails_waiting_and_later_requests(watcher):
    may_fail = threading.Event()

    def load(on_load):
        assert may_fail.wait(20)
        raise BadModelFile("model.gguf is cut.", hint="Pull it again.")

    engine = start(watcher, load)
    engine.submit(make_request("early", [1]))
    may_fail.set()
    assert isinstance(watcher.end_of("early").error, BadModelFile)
    assert isinstance(watcher.wait(lambda e: isinstance(e, EngineFailedEvent)).error, BadModelFile)
    engine.submit(make_request("late", [1]))
    assert isinstance(watcher.end_of("late").error, BadModelFile)
    engine.close()


def test_cancel_reaches_a_running_request(watcher):
    first_step = threading.Event()
    runner = FakeRunner(64, before_run=lambda plan: first_step.set())
    engine = start(watcher, lambda on_load: (make_core(runner=runner), READY))
    engine.submit(make_request("a", [1] * 9, max_tokens=1_000))
    assert first_step.wait(20)
    engine.cancel("a")
    assert watcher.end_of("a").reason is FinishReason.CANCELLED
    engine.close()
    assert engine.snapshot().held_blocks == 0


def test_closing_ends_every_request_once(watcher):
    engine = start(watcher, lambda on_load: (make_core(), READY))
    for name in "abc":
        engine.submit(make_request(name, [1], max_tokens=1_000))
    watcher.wait(lambda e: isinstance(e, TokenEvent))
    engine.close()
    engine.submit(make_request("late", [1]))
    for name in ("a", "b", "c", "late"):
        end = watcher.ends(name) or [watcher.end_of(name)]
        assert isinstance(end[0], FailEvent)
        assert isinstance(end[0].error, EngineStopped)
    assert len(watcher.ends("a")) == 1


def test_a_bug_in_the_core_ends_every_request_and_says_why(watcher):
    core = make_core()

    def broken_step():
        raise AssertionError("books drifted")

    core.step = broken_step
    engine = start(watcher, lambda on_load: (core, READY))
    engine.submit(make_request("a", [1]))
    assert "books drifted" in watcher.end_of("a").error.message
    assert isinstance(watcher.wait(lambda e: isinstance(e, EngineFailedEvent)).error, EngineStopped)
    engine.close()


def test_a_broken_listener_does_not_stop_the_others(watcher):
    engine = Engine(lambda on_load: (make_core(), READY))

    def broken(batch):
        raise RuntimeError("widget is gone")

    engine.add_listener(broken)
    engine.add_listener(watcher)
    engine.start()
    engine.submit(make_request("a", [1]))
    assert watcher.end_of("a").reason is FinishReason.LENGTH
    engine.close()


def test_the_snapshot_shows_the_idle_engine_after_the_last_answer(watcher):
    engine = start(watcher, lambda on_load: (make_core(), READY))
    engine.submit(make_request("a", range(40)))
    watcher.end_of("a")
    assert engine.snapshot().held_blocks == 0
    assert engine.snapshot().cached_blocks > 0
    assert engine.snapshot().sequences == ()
    engine.close()


def test_questions_are_answered_between_two_steps(watcher):
    engine = start(watcher, lambda on_load: (make_core(context_length=200), READY))
    engine.submit(make_request("a", range(40), max_tokens=9))
    watcher.end_of("a")
    seen = engine.inspect().result(20)
    assert seen.count(BlockState.CACHED) == 3
    assert engine.block_tokens(seen.nodes[0].blocks[1]).result(20).token_ids == (*range(16, 32),)
    assert engine.pin_branch("b", seen.nodes[0].id).result(20).num_held == 3
    assert engine.unpin("b").result(20).num_blocks == 3
    assert engine.pin("p", tuple(range(32))).result(20).num_held == 2
    assert engine.evict(seen.nodes[0].id).result(20) == 1
    with pytest.raises(NoRoom, match="one full context needs 13"):
        engine.pin("q", tuple(range(2_000))).result(20)
    with pytest.raises(ModelNotFound, match="other is not loaded"):
        engine.inspect("other").result(20)
    engine.close()


def test_no_question_waits_for_an_engine_that_has_ended(watcher):
    may_load = threading.Event()

    def load(on_load):
        assert may_load.wait(20)
        raise BadModelFile("model.gguf is cut.")

    engine = start(watcher, load)
    waiting = engine.inspect()
    cancelled = engine.inspect()
    assert cancelled.cancel()
    may_load.set()
    for future in (waiting, engine.evict(1)):
        with pytest.raises(EngineStopped, match="is cut"):
            future.result(20)
    engine.close()
    unused = Engine(load)
    question = unused.inspect()
    unused.close()
    for future in (question, unused.pin("a", (1,))):
        with pytest.raises(EngineStopped, match="closed"):
            future.result(20)


def test_a_question_that_fails_takes_no_chat_down(watcher):
    core = make_core()
    core.inspect = lambda: 1 // 0
    engine = start(watcher, lambda on_load: (core, READY))
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        engine.inspect().result(20)
    engine.submit(make_request("a", [1]))
    assert watcher.end_of("a").reason is FinishReason.LENGTH
    engine.close()
