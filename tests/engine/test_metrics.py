"""Every count of a snapshot against what was asked and answered; percentiles against numpy."""

from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpaged.engine.latency import (
    INTER_TOKEN_WINDOW,
    LatencyWindow,
    Wait,
    num_samples,
    percentiles,
)
from localpaged.engine.metrics import Metrics
from localpaged.engine.params import BeamParams
from testkit.engine_runs import Outcome, collect, make_core, make_request, run

TIMES = st.lists(st.floats(0, 1e4, allow_nan=False), max_size=60)


def samples_of(times, *, size=1_000):
    window = LatencyWindow(size)
    for seconds in times:
        window.add(seconds)
    return window.samples()


@given(TIMES, st.floats(0, 100))
def test_percentiles_are_those_of_numpy(times, percent):
    found = percentiles(samples_of(times), [percent])
    if not times:
        assert found is None
        return
    assert found == pytest.approx([np.percentile(times, percent)], rel=1e-9, abs=1e-9)


@given(TIMES, st.integers(1, 20))
def test_a_window_keeps_the_latest_and_no_more(times, size):
    kept = samples_of(times, size=size)
    assert num_samples(kept) == min(size, len(times))
    latest = times[-size:]
    assert percentiles(kept, [0, 100]) == ([min(latest), max(latest)] if latest else None)


def test_memory_for_latencies_is_bounded():
    window = LatencyWindow(INTER_TOKEN_WINDOW)
    window.add(0.5, count=10 * INTER_TOKEN_WINDOW)
    assert len(window.samples()) == 8 * INTER_TOKEN_WINDOW


def test_tokens_that_come_together_share_the_time_that_was_waited_for_them():
    metrics = Metrics()
    metrics.count_tokens(4, Wait(0.2, is_first=False))
    assert percentiles(metrics.inter_token.samples(), [0, 100]) == pytest.approx([0.05, 0.05])
    assert num_samples(metrics.inter_token.samples()) == 4
    assert metrics.generated_tokens == 4


def test_a_request_has_one_first_token_however_many_answers():
    core = make_core()
    run(core, [make_request("a", range(20), num_samples=3, max_tokens=5)])
    told = core.snapshot()
    assert num_samples(told.ttft_samples) == 1
    assert num_samples(told.inter_token_samples) == 3 * 4
    assert told.generated_tokens == 15
    assert told.prompt_tokens == 20


def test_times_to_the_first_token_begin_when_the_request_was_submitted():
    clock = count(100).__next__
    core = make_core(clock=clock)
    core.submit(make_request("a", range(20), max_tokens=3), submitted_s=40.0)
    collect({}, core.step())
    (first_s,) = percentiles(core.snapshot().ttft_samples, [50])
    assert first_s > 60


def test_what_is_cached_is_told_apart_from_what_is_read():
    core = make_core()
    run(core, [make_request("a", range(40), max_tokens=4)])
    before = core.snapshot()
    assert (before.prompt_tokens, before.cached_prompt_tokens) == (40, 0)
    assert before.prefilled_tokens == before.computed_prompt_tokens == 40
    run(core, [make_request("b", range(40), max_tokens=4)])
    after = core.snapshot()
    assert after.cached_prompt_tokens == 32
    assert after.prefilled_tokens - before.prefilled_tokens == 8
    assert after.prompt_tokens == 80
    assert after.generated_tokens == 8


def test_a_preempted_prompt_is_counted_once_and_what_is_read_again_as_prefill():
    core = make_core(num_blocks=9, context_length=100)
    outcomes = {}
    requests = [make_request(name, range(i, i + 30), max_tokens=60) for i, name in enumerate("ab")]
    outcomes = run(core, requests)
    told = core.snapshot()
    assert told.preemptions > 0
    assert told.prompt_tokens == 60
    assert told.generated_tokens == sum(len(o.token_ids) for o in outcomes.values()) == 120
    assert told.prefilled_tokens > 60 - told.cached_prompt_tokens
    assert told.requests == 2


def test_beams_are_counted_when_they_are_told_and_once_a_step():
    core = make_core(clock=count().__next__)
    request = make_request("a", range(20), num_samples=2, max_tokens=4, beam=BeamParams(2))
    outcome = run(core, [request])["a"]
    told = core.snapshot()
    answers = [outcome, *outcome.branches.values()]
    assert told.generated_tokens == sum(len(answer.token_ids) for answer in answers)
    assert num_samples(told.ttft_samples) == 1
    assert num_samples(told.inter_token_samples) == 3


def test_rows_of_a_step_are_its_batch():
    core = make_core()
    outcomes: dict[str, Outcome] = {}
    for name in "abc":
        collect(outcomes, core.submit(make_request(name, range(5), max_tokens=6)))
    while not core.is_idle:
        before = core.snapshot()
        collect(outcomes, core.step())
        after = core.snapshot()
        assert after.steps - before.steps == 1
        assert 1 <= after.step_rows - before.step_rows <= 3
    assert core.snapshot().prompt_tokens == 15


def test_the_most_blocks_held_are_known_when_nothing_is_held_any_more():
    core = make_core()
    run(core, [make_request(name, range(i, i + 20), max_tokens=13) for i, name in enumerate("ab")])
    told = core.snapshot()
    # 20 + 12 computed tokens each; the last one sampled is never computed
    assert (told.held_blocks, told.peak_held_blocks) == (0, 4)
