"""A grammar that takes long to make holds up nobody but its own request."""

import threading

import pytest

from localpaged.engine.engine import Engine
from localpaged.engine.events import ReadyEvent, TokenEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.grammar import GrammarCompiler
from localpaged.engine.params import Grammar
from localpaged.errors import BadParameter, EngineStopped
from testkit.engine_runs import make_core, make_request, run
from testkit.fake_runner import VOCAB_SIZE
from testkit.watcher import Watcher

DIGITS = [str(i % 10).encode() for i in range(VOCAB_SIZE)]
READY = ReadyEvent("fake", "cpu", "float32", 1024, 0.0)


@pytest.fixture
def gate(monkeypatch):
    """Grammars are made when this is set; `begun` tells that one is being made."""
    gate, begun = threading.Event(), threading.Event()
    compile_ = GrammarCompiler.compile

    def compile_later(self, grammar, **options):
        begun.set()
        assert gate.wait(20)
        return compile_(self, grammar, **options)

    monkeypatch.setattr(GrammarCompiler, "compile", compile_later)
    gate.begun = begun
    yield gate
    gate.set()


@pytest.fixture
def core():
    return make_core(token_bytes=DIGITS, context_length=1_024)


@pytest.fixture
def engine(core):
    watcher = Watcher()
    engine = Engine(lambda on_load: (core, READY))
    engine.add_listener(watcher)
    engine.watcher = watcher
    engine.start()
    yield engine
    engine.close()


def bounded(name="bounded", text="[0-9]{5}", **options):
    return make_request(name, [1, 2, 3], grammar=Grammar("regex", text), **options)


def states(core):
    return {view.request_id: view.state for view in core.snapshot().sequences}


def test_others_are_answered_while_a_grammar_is_made(core, gate):
    core.submit(bounded())
    outcomes = {}
    core.submit(make_request("free", [7, 8]))
    while not core.is_blocked:
        for event in core.step():
            outcomes.setdefault(event.request_id, []).append(event)
        core.check()
        assert states(core)["bounded"] == "waiting"
    assert outcomes["free"][-1].reason is FinishReason.LENGTH
    assert set(outcomes) == {"free"}
    gate.set()
    text = run(core, [])["bounded"].text
    assert len(text) == 5 and text.isdigit()


def test_a_grammar_that_is_wrong_fails_its_request_when_that_is_known(core, gate):
    assert core.submit(bounded(text="(")) == []
    gate.set()
    assert isinstance(run(core, [])["bounded"].fail.error, BadParameter)
    assert core.is_idle and not core.is_blocked
    assert core.scheduler.kv.pool.num_held == 0


@pytest.mark.parametrize("num_samples", [1, 3])
def test_a_request_that_waits_for_its_grammar_can_be_cancelled(core, gate, num_samples):
    core.submit(bounded("first", num_samples=num_samples))
    core.submit(bounded("second"))
    assert gate.begun.wait(20)
    for name in ("second", "first"):
        ends = core.cancel(name)
        assert [end.reason for end in ends] == [FinishReason.CANCELLED] * len(ends)
        assert ends[-1].is_last
    core.check()
    assert core.is_idle
    gate.set()
    assert len(run(core, [bounded("first")])["first"].text) == 5


def test_the_engine_sleeps_until_the_grammar_is_made(engine, gate):
    engine.submit(bounded())
    assert gate.begun.wait(20)
    engine.submit(make_request("free", [7, 8]))
    assert engine.watcher.end_of("free").reason is FinishReason.LENGTH
    assert not any(
        isinstance(event, TokenEvent) and event.request_id == "bounded"
        for event in engine.watcher.events
    )
    gate.set()
    assert engine.watcher.end_of("bounded").reason is FinishReason.STOP


def test_a_request_is_cancelled_at_once_while_nothing_else_runs(engine, gate):
    engine.submit(bounded())
    assert gate.begun.wait(20)
    engine.cancel("bounded")
    assert engine.watcher.end_of("bounded").reason is FinishReason.CANCELLED


def test_closing_does_not_wait_for_a_grammar(engine, gate):
    engine.submit(bounded("running"))
    engine.submit(bounded("queued"))
    assert gate.begun.wait(20)
    engine.close()
    for name in ("running", "queued"):
        assert isinstance(engine.watcher.end_of(name).error, EngineStopped)


def test_an_unloaded_model_forgets_the_grammars_it_waited_for(engine, gate):
    engine.submit(bounded())
    assert gate.begun.wait(20)
    engine.unload("fake")
    assert "unloaded" in engine.watcher.end_of("bounded").error.message
