"""Several models in one engine: own pools, steps in turn, loading beside streaming answers."""

import gc
import threading
import weakref
from dataclasses import replace

import pytest

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.engine import Engine
from localpaged.engine.events import (
    FailEvent,
    LoadEvent,
    LoadFailedEvent,
    ReadyEvent,
    TokenEvent,
    UnloadedEvent,
)
from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import BadModelFile, ModelNotFound, NoRoom
from localpaged.memory_plan import (
    MemoryPlan,
    eight_bit_bytes,
    rounding_bytes,
    working_bytes,
)
from localpaged.models.opened_model import count_parameters
from testkit.engine_runs import make_core, make_request
from testkit.fake_runner import FakeRunner
from testkit.watcher import Watcher

LOAD_S = 0.3


def ready(name):
    return ReadyEvent(name, "cpu", "float32", 1_024, 0.0)


def request_of(model, name, prompt, **options):
    return replace(make_request(name, prompt, **options), model=model)


@pytest.fixture
def watcher():
    return Watcher()


@pytest.fixture
def loaders():
    """How to load which model; tests add theirs."""
    return {"second": lambda on_load: (make_core(), ready("second"))}


@pytest.fixture
def engine(watcher, loaders):
    engine = Engine(lambda on_load: (make_core(), ready("first")), loaders.__getitem__)
    engine.add_listener(watcher)
    engine.start()
    yield engine
    engine.close()


def test_each_model_has_its_own_pool_and_shares_nothing(engine, watcher):
    engine.load("second")
    prompt = list(range(40))
    for model, name in (("first", "a"), ("second", "b"), ("", "c")):
        engine.submit(request_of(model, name, prompt))
        watcher.end_of(name)
    cached = {name: watcher.ends(name)[0].usage.cached_tokens for name in "abc"}
    assert cached == {"a": 0, "b": 0, "c": 32}
    assert engine.snapshot("second").cached_blocks > 0


def test_models_step_in_turn(engine, watcher, loaders):
    order = []
    both_wait = threading.Event()

    def runner(name):
        def before_run(plan):
            assert both_wait.wait(20)
            order.append(name)

        return FakeRunner(64, before_run=before_run)

    for name in ("second", "third"):
        core = make_core(runner=runner(name))
        loaders[name] = lambda on_load, core=core, name=name: (core, ready(name))
        engine.load(name)
        engine.submit(request_of(name, name, [1, 2], max_tokens=10))
    both_wait.set()
    for name in ("second", "third"):
        watcher.end_of(name)
    assert order[2:18] in (["second", "third"] * 8, ["third", "second"] * 8)


def test_answers_stream_while_a_further_model_loads(engine, watcher, loaders):
    def load(on_load):
        for done in range(30):
            on_load(LoadEvent("weights", done, 30, "bytes"))
        return make_core(), ready("second")

    loaders["second"] = load
    engine.submit(request_of("", "streaming", [1], max_tokens=20))
    engine.load("second")
    watcher.wait(lambda e: isinstance(e, ReadyEvent) and e.model_name == "second")
    kinds = [
        type(e).__name__
        for e in watcher.events
        if isinstance(e, (TokenEvent, LoadEvent)) and getattr(e, "model_name", "second")
    ]
    first_load, last_load = kinds.index("LoadEvent"), len(kinds) - kinds[::-1].index("LoadEvent")
    assert "TokenEvent" in kinds[first_load:last_load]


def test_a_model_that_cannot_be_loaded_leaves_the_others_alone(engine, watcher, loaders):
    def load(on_load):
        raise BadModelFile("second.gguf is cut.")

    loaders["second"] = load
    engine.load("second")
    failed = watcher.wait(lambda e: isinstance(e, LoadFailedEvent))
    assert (failed.model_name, type(failed.error)) == ("second", BadModelFile)
    engine.submit(request_of("", "a", [1]))
    assert watcher.end_of("a").reason is FinishReason.LENGTH


def test_an_unloaded_or_unknown_model_refuses_with_what_is_loaded(engine, watcher):
    engine.load("second")
    engine.submit(request_of("second", "a", [1], max_tokens=1_000))
    watcher.wait(lambda e: isinstance(e, TokenEvent))
    engine.unload("second")
    assert isinstance(watcher.end_of("a"), FailEvent)
    engine.submit(request_of("second", "b", [1]))
    error = watcher.end_of("b").error
    assert isinstance(error, ModelNotFound)
    assert "first" in error.hint
    assert engine.snapshot("second").total_blocks == 0


def test_requests_for_a_model_that_loads_wait_for_it(engine, watcher, loaders):
    def load(on_load):
        for model, name in (("second", "a"), ("second", "cancelled")):
            engine.submit(request_of(model, name, [1, 2]))
        engine.load("second")
        engine.cancel("cancelled")
        on_load(LoadEvent("weights"))
        return make_core(), ready("second")

    loaders["second"] = load
    engine.load("second")
    assert watcher.end_of("cancelled").reason is FinishReason.CANCELLED
    assert watcher.end_of("a").reason is FinishReason.LENGTH
    assert sum(isinstance(e, ReadyEvent) and e.model_name == "second" for e in watcher.events) == 1


def test_loading_a_further_model_is_told_apart_from_the_first_token(engine, watcher, loaders):
    may_load = threading.Event()

    def load(on_load):
        assert may_load.wait(20)
        return make_core(), ready("second")

    loaders["second"] = load
    engine.load("second")
    engine.submit(request_of("second", "early", [1]))
    threading.Timer(LOAD_S, may_load.set).start()
    usage = watcher.end_of("early").usage
    assert usage.load_s >= 0.9 * LOAD_S > usage.ttft_s > 0


def test_requests_fail_with_what_kept_their_model_from_loading(engine, watcher, loaders):
    def load(on_load):
        engine.submit(request_of("second", "a", [1]))
        on_load(LoadEvent("weights"))
        raise NoRoom("second needs 4 GiB; 1 GiB is free.")

    loaders["second"] = load
    engine.load("second")
    assert "4 GiB" in watcher.end_of("a").error.message
    watcher.wait(lambda e: isinstance(e, LoadFailedEvent))
    loaders["second"] = lambda on_load: (make_core(), ready("second"))
    engine.load("second")
    engine.submit(request_of("second", "b", [1]))
    assert watcher.end_of("b").reason is FinishReason.LENGTH


def test_a_model_that_is_unloaded_while_it_loads_stops_loading(engine, watcher, loaders):
    stages = []

    def load(on_load):
        engine.submit(request_of("second", "a", [1]))
        engine.unload("second")
        for stage in ("one", "two"):
            stages.append(stage)
            on_load(LoadEvent(stage))
        return make_core(), ready("second")

    loaders["second"] = load
    engine.load("second")
    assert "unloaded" in watcher.end_of("a").error.message
    watcher.wait(lambda e: isinstance(e, UnloadedEvent) and e.model_name == "second")
    engine.submit(request_of("", "b", [1]))
    watcher.end_of("b")
    assert stages == ["one"]
    assert not any(isinstance(e, ReadyEvent) and e.model_name == "second" for e in watcher.events)


def test_memory_is_given_back_when_nothing_holds_an_unloaded_model_any_more(watcher):
    alive = []

    class Loaded:
        """Stands for the weights."""

    def load(on_load):
        core, weights = make_core(), Loaded()
        core.weights = weights
        alive.append(weakref.ref(weights))
        return core, ready("second")

    seen = []
    engine = Engine(
        lambda on_load: (make_core(), ready("first")),
        {"second": load}.__getitem__,
        after_unload=lambda: seen.append((gc.collect(), alive[0]())),
    )
    engine.add_listener(watcher)
    engine.start()
    engine.load("second")
    engine.submit(request_of("second", "a", [1, 2]))
    watcher.end_of("a")
    engine.unload("second")
    watcher.wait(lambda e: isinstance(e, UnloadedEvent))
    assert [weights for _, weights in seen] == [None]
    engine.close()


def test_a_model_that_does_not_fit_is_refused_with_its_numbers():
    plan = MemoryPlan(weight_bytes=3 * 2**30, kv_bytes=2**30, working_bytes=2**29)
    plan.check("big", free_bytes=5 * 2**30)
    with pytest.raises(NoRoom, match=r"4\.50 GiB: 3\.00 GiB .* 1\.00 GiB .* 4\.00 GiB are free"):
        plan.check("big", free_bytes=4 * 2**30)


def test_working_memory_grows_with_the_step():
    config = DecoderConfig("llama", 1_000, 64, 128, 2, 4, 2, 16, 512, 1e-5, 1e4)
    small, large = (working_bytes(config, step_tokens=n) for n in (16, 512))
    assert small < large
    assert small > 4 * 64 * 1_000


def test_rounding_to_eight_bits_is_counted_beside_what_becomes_of_it():
    tied = DecoderConfig("llama", 49_152, 576, 1_536, 30, 9, 3, 64, 8_192, 1e-5, 1e4, is_tied=True)
    words = 49_152 * 576
    assert rounding_bytes(tied) == rounding_bytes(replace(tied, is_tied=False)) == 4 * words
    as_they_are = replace(tied, has_post_norms=True)  # embeddings, which the head is made of
    assert rounding_bytes(as_they_are) == 2 * words
    assert rounding_bytes(replace(as_they_are, is_tied=False)) == 4 * words
    large_layers = replace(tied, intermediate_size=100_000)
    assert rounding_bytes(large_layers) > 4 * words
    assert eight_bit_bytes(tied) == count_parameters(tied) - norms(tied) + 2 * words
    apart = replace(tied, is_tied=False)
    assert eight_bit_bytes(apart) == count_parameters(apart) - norms(apart) + words


def norms(config):
    """Numbers that are in no matrix."""
    return (2 * config.num_layers + 1) * config.hidden_size
