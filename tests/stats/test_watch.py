"""Rates and rings: what a second added, on the engine's clock; bounded; never taken back."""

from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from localpaged.engine.answer import Vocabulary
from localpaged.engine.core import EngineCore
from localpaged.engine.latency import LatencyWindow
from localpaged.engine.params import EngineConfig
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.stats.collector import Collector
from localpaged.stats.schema import HISTORY_POINTS, ModelHistory, Program, Totals
from localpaged.stats.watch import ModelWatch, blocks_of
from testkit.engine_runs import make_request, run
from testkit.fake_runner import FakeRunner
from testkit.stats_source import CoreSource

COUNTS = st.integers(0, 50)


def picture(at_s, **counts):
    return EngineSnapshot(taken_s=at_s, total_blocks=10, free_blocks=10, **counts)


def watch_of(*pictures, since_s=None):
    watch = ModelWatch(since_s=since_s)
    for told in pictures:
        watch.sample(told, now_s=told.taken_s)
    return watch


def test_prefill_and_decode_are_rates_of_their_own():
    watch = watch_of(
        picture(10.0, steps=1),
        picture(12.0, steps=5, step_rows=8, prefilled_tokens=300, generated_tokens=40),
    )
    rates = watch.rates
    assert (rates.prefill_tokens_per_s, rates.decode_tokens_per_s) == (150.0, 20.0)
    assert rates.batch_rows == 2.0


def test_an_engine_that_rests_makes_no_new_picture_and_its_rates_are_none():
    watch = watch_of(picture(10.0), picture(11.0, steps=9, generated_tokens=90))
    assert watch.rates.decode_tokens_per_s == 90
    watch.sample(picture(11.0, steps=9, generated_tokens=90), now_s=12.0)
    assert watch.rates.decode_tokens_per_s == 0
    assert watch.history().decode_tokens_per_s == (0.0, 90.0, 0.0)


def test_tokens_just_before_it_came_to_rest_count_for_the_whole_second():
    watch = watch_of(picture(10.0))
    watch.sample(picture(10.5, steps=9, generated_tokens=30), now_s=11.0)
    assert watch.rates.decode_tokens_per_s == 30


def test_the_first_second_of_a_model_counts():
    watch = watch_of(picture(5.0, steps=2, prefilled_tokens=40), since_s=4.0)
    assert watch.rates.prefill_tokens_per_s == 40


def test_two_looks_at_one_picture_change_nothing():
    watch = watch_of(picture(10.0), picture(11.0, steps=1, generated_tokens=7))
    before = watch.rates
    watch.latencies(picture(11.0))
    assert watch.rates == before and len(watch.history().fill) == 2


def test_latencies_are_drawn_where_something_was_measured():
    window = LatencyWindow(8)
    window.add(0.25)
    once = picture(1.0, ttft_samples=window.samples())
    watch = ModelWatch()
    # somebody who asks in between takes nothing from the curve
    assert watch.latencies(once)[0].p50_ms == 250
    watch.sample(once, now_s=1.0)
    watch.sample(replace(once, taken_s=2.0), now_s=2.0)
    assert watch.history().ttft_p50_ms == (250.0, None)
    assert watch.latencies(once)[0].p50_ms == 250


def test_rings_are_bounded_and_of_one_length():
    watch = watch_of(*(picture(float(i)) for i in range(HISTORY_POINTS + 30)))
    lengths = {len(getattr(watch.history(), field.name)) for field in fields(ModelHistory)}
    assert lengths == {HISTORY_POINTS}


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=8))
def test_totals_only_grow_however_often_a_model_is_loaded_anew(loadings):
    watch, at_s, expected = ModelWatch(), 0.0, 0
    for first, more in loadings:
        for count in (first, first + more):
            at_s += 1
            told = picture(at_s, requests=1 + count, steps=1 + count, generated_tokens=count)
            watch.sample(told, now_s=at_s)
        at_s += 1
        gone = picture(at_s)
        watch.sample(gone, now_s=at_s)
        expected += first + more
        assert watch.totals(gone).generated_tokens == expected


def test_who_looks_right_after_a_model_was_loaded_anew_sees_the_whole_run():
    watch = watch_of(picture(1.0, requests=2, steps=9, generated_tokens=30))
    anew = picture(1.5, requests=1, steps=2, generated_tokens=4)
    assert watch.totals(anew).generated_tokens == 34
    watch.sample(anew, now_s=2.0)
    assert watch.totals(anew).generated_tokens == 34


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_classes_of_blocks_sum_up_to_all(active, pinned, cached, free):
    blocks = blocks_of(
        EngineSnapshot(
            total_blocks=active + pinned + cached + free,
            held_blocks=active + pinned,
            pinned_blocks=pinned,
            cached_blocks=cached,
            free_blocks=free,
        )
    )
    assert (blocks.active, blocks.pinned, blocks.cached, blocks.free) == (
        *(active, pinned, cached, free),
    )
    assert blocks.active + blocks.pinned + blocks.cached + blocks.free == blocks.total


def test_every_total_is_counted_by_the_engine():
    assert {field.name for field in fields(Totals)} <= {f.name for f in fields(EngineSnapshot)}


def test_a_model_that_goes_is_told_no_more_and_counts_when_it_is_back():
    source = CoreSource()
    collector = Collector(source, Program("0", 1, "chat", 0.0))
    run(source.core, [make_request("a", range(20))])
    collector.sample()
    source.names = ()
    collector.sample()
    assert collector.snapshot(frozenset(), {}).models == ()
    source.names = ("",)
    collector.sample()
    (model,) = collector.snapshot(frozenset(), {}).models
    assert model.totals.generated_tokens == 8
    assert len(collector.snapshot(frozenset(), {}).rss_bytes_history) == 3


def test_a_cards_memory_is_told_where_a_model_is_on_one():
    source = CoreSource()
    collector = Collector(source, Program("0", 1, "chat", 0.0))
    memory = collector.snapshot(frozenset(), {}).memory
    assert (memory.device_total_bytes, memory.device_free_bytes) == (None, None)
    source.core = EngineCore(
        EngineConfig(num_blocks=4, context_length=64),
        FakeRunner(4),
        Vocabulary([b"a"], frozenset()),
        device="cuda:0",
        device_bytes=lambda: (9, 4),
    )
    told = collector.snapshot(frozenset(), {})
    assert (told.memory.device_total_bytes, told.memory.device_free_bytes) == (9, 4)
    assert [model.device for model in told.models] == ["cuda:0"]
