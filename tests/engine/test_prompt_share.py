"""Short prompts beside streaming answers: when they are read whole, and what streams may wait."""

from __future__ import annotations

from itertools import count
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.engine_runs import Outcome, collect, make_core, make_request
from testkit.fake_runner import FakeRunner, expected_answer

DECODE_S, TOKEN_S = 0.010, 0.001
STALL_S = 0.08
NEVER_TWICE = count(1)


class TimedRunner(FakeRunner):
    """Takes 10 ms a step, and 1 ms more for each prompt token, by a clock of its own."""

    now_s = 0.0

    def run(self, plan):
        self.now_s += DECODE_S
        self.now_s += TOKEN_S * sum(len(row.token_ids) for row in plan.rows if not row.is_decode)
        return super().run(plan)


class Play:
    """A core whose pace is learned, with an answer that streams; keeps how long steps were."""

    def __init__(self, *, stall_s: float = STALL_S, **options) -> None:
        self.runner = TimedRunner(1_024)
        self.core = make_core(
            num_blocks=1_024, runner=self.runner, stream_stall_s=stall_s, **options
        )
        self.core._clock = lambda: self.runner.now_s
        self.lengths_s: list[float] = []
        self.outcomes: dict[str, Outcome] = {}
        self.began_s: dict[str, float] = {}
        self.first_s: dict[str, float] = {}
        self.submit("stream", unknown(40), max_tokens=4_000)
        self.step(4)
        self.submit("teacher", unknown(40), max_tokens=4)
        self.step(12)
        self.lengths_s.clear()

    def submit(self, name: str, prompt: list[int], *, max_tokens: int = 3) -> None:
        self.began_s[name] = self.runner.now_s
        request = make_request(name, prompt, max_tokens=max_tokens, speculation=False)
        collect(self.outcomes, self.core.submit(request))

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            began_s = self.runner.now_s
            collect(self.outcomes, self.core.step())
            self.lengths_s.append(self.runner.now_s - began_s)
            for name, outcome in self.outcomes.items():
                if outcome.token_ids:
                    self.first_s.setdefault(name, self.runner.now_s - self.began_s[name])

    def finish(self, names: list[str]) -> None:
        for _ in range(5_000):
            if all(name in self.first_s for name in names):
                return
            self.step()
        raise AssertionError("somebody is never read")


def unknown(length: int) -> list[int]:
    """A prompt that begins as none before it did."""
    number = next(NEVER_TWICE)
    return [number % 250, number // 250 % 250, *([7] * length)][:length]


def mean_first_s(lengths: list[int], *, stall_s: float) -> float:
    """The mean time to a first token of prompts that come one a step, beside an answer."""
    play = Play(stall_s=stall_s)
    names = [str(i) for i in range(len(lengths))]
    for name, length in zip(names, lengths, strict=True):
        play.submit(name, unknown(length))
        play.step()
    play.finish(names)
    return mean(play.first_s[name] for name in names)


@settings(max_examples=30)
@given(
    arrivals=st.lists(st.tuples(st.integers(2, 200), st.integers(0, 3)), min_size=1, max_size=12),
    stall_s=st.sampled_from((0.0, 0.015, 0.05, 0.1)),
    max_running=st.integers(3, 12),
)
def test_no_stream_waits_longer_than_was_set_and_everybody_is_read(arrivals, stall_s, max_running):
    play = Play(stall_s=stall_s, max_running=max_running)
    prompts = {str(i): unknown(length) for i, (length, _) in enumerate(arrivals)}
    for (name, prompt), (_, num_steps) in zip(prompts.items(), arrivals, strict=True):
        play.submit(name, prompt)
        play.step(num_steps)
        play.core.check()
    play.finish(list(prompts))
    assert max(play.lengths_s) <= max(2 * DECODE_S, stall_s) + 1e-9
    play.core.cancel("stream")
    while not play.core.is_idle:
        play.step()
    for name, prompt in prompts.items():
        assert play.outcomes[name].token_ids == expected_answer(prompt, 3)


@settings(max_examples=20)
@given(length=st.integers(2, 120), times=st.integers(1, 10))
def test_prompts_of_one_length_are_never_told_later_than_in_small_pieces(length, times):
    lengths = [length] * times
    pieces_s = mean_first_s(lengths, stall_s=0.0)
    assert mean_first_s(lengths, stall_s=STALL_S) <= pieces_s + 1e-9


@settings(max_examples=20)
@given(lengths=st.lists(st.integers(2, 300), min_size=1, max_size=10))
def test_a_mix_of_prompts_is_hardly_ever_told_later(lengths):
    """Who is read to its end holds up the others by what it takes, a step's stall at most."""
    pieces_s = mean_first_s(lengths, stall_s=0.0)
    assert mean_first_s(lengths, stall_s=STALL_S) <= pieces_s + DECODE_S


@pytest.mark.parametrize("length", [12, 24, 60])
def test_eight_that_come_one_by_one_are_told_much_sooner(length):
    pieces_s = mean_first_s([length] * 8, stall_s=0.0)
    assert mean_first_s([length] * 8, stall_s=STALL_S) <= 0.8 * pieces_s


def test_a_short_prompt_is_read_whole_in_its_first_step():
    play = Play()
    play.submit("short", unknown(60))
    play.step()
    assert play.lengths_s == pytest.approx([DECODE_S + 60 * TOKEN_S])
    assert "short" in play.first_s


def test_the_shortest_is_read_first():
    play = Play()
    for name, length in (("long", 65), ("middle", 50), ("short", 30)):
        play.submit(name, unknown(length))
    play.finish(["long", "middle", "short"])
    assert play.first_s["short"] < min(play.first_s["middle"], play.first_s["long"])


def test_a_long_chat_with_a_short_message_is_short():
    play = Play()
    history = unknown(2_000)
    play.submit("before", history)
    play.finish(["before"])
    play.step(3)
    play.lengths_s.clear()
    play.submit("after", [*history, *unknown(50)])
    play.step()
    assert "after" in play.first_s and len(play.lengths_s) == 1


def test_a_long_prompt_gets_no_more_of_a_step_because_short_ones_wait_for_a_place():
    play = Play(max_running=2)
    play.submit("long", unknown(2_000))
    play.step(2)
    for i in range(4):
        play.submit(f"short {i}", unknown(20))
    play.lengths_s.clear()
    play.step(20)
    assert max(play.lengths_s) <= 2 * DECODE_S + 1e-9


def test_a_long_prompt_goes_on_while_short_ones_come_all_the_time():
    play = Play(max_running=16)
    play.submit("long", unknown(1_000))
    for i in range(200):
        play.submit(f"short {i}", unknown(20))
        play.step()
    assert "long" in play.first_s
