"""How much prompt a step reads while answers stream."""

import pytest

from testkit.engine_runs import Outcome, collect, make_core, make_request
from testkit.fake_runner import FakeRunner


class TimedRunner(FakeRunner):
    """Takes 10 ms a step and more for each prompt token, by a clock of its own.

    1 ms for the token, and `attention_s` for each token before it.
    """

    now_s = 0.0
    attention_s = 0.0

    def run(self, plan):
        self.now_s += 0.010
        for row in plan.rows:
            if len(row.token_ids) > 1:
                self.now_s += len(row.token_ids) * (0.001 + self.attention_s * row.start)
        return super().run(plan)


@pytest.mark.parametrize("attention_s", [0.0, 2e-7])
def test_a_long_prompt_stretches_the_steps_of_streams_to_what_was_set(attention_s):
    runner = TimedRunner(1_024)
    runner.attention_s = attention_s
    core = make_core(num_blocks=1_024, runner=runner, stream_stretch=2.0)
    core._clock = lambda: runner.now_s
    for i in range(8):
        core.submit(make_request(f"stream {i}", [i] * 40, max_tokens=700))
    for _ in range(20):
        core.step()
    outcomes: dict[str, Outcome] = {}
    collect(outcomes, core.submit(make_request("long", [9] * 6_000)))
    lengths_s = []
    while not outcomes.get("long") or not outcomes["long"].token_ids:
        started_s = runner.now_s
        collect(outcomes, core.step())
        lengths_s.append(runner.now_s - started_s)
    assert sorted(lengths_s)[int(0.95 * len(lengths_s))] <= 3 * 0.010
    # No slower than needed either: the budget is used.
    assert len(lengths_s) < 6_000 / 8 * (1 + attention_s * 3_000 / 0.001)


def test_a_long_prompt_that_is_mostly_cached_begins_with_small_pieces():
    """What attention to 6,000 tokens costs is not forgotten while short prompts are read."""
    runner = TimedRunner(1_024)
    runner.attention_s = 2e-6
    core = make_core(num_blocks=1_024, runner=runner, stream_stretch=2.0)
    core._clock = lambda: runner.now_s
    core.submit(make_request("stream", [1] * 40, max_tokens=5_000))
    for _ in range(20):
        core.step()
    outcomes: dict[str, Outcome] = {}
    lengths_s: list[float] = []

    def read(name, prompt):
        lengths_s.clear()
        collect(outcomes, core.submit(make_request(name, prompt)))
        while not outcomes.get(name) or not outcomes[name].token_ids:
            started_s = runner.now_s
            collect(outcomes, core.step())
            lengths_s.append(runner.now_s - started_s)

    read("long", [9] * 6_000)
    for i in range(20):
        read(f"short {i}", [50 + i] * 100)
    read("long again", [9] * 5_900 + [8] * 100)
    # The first step of a prompt is planned before it is known what of it is cached.
    assert max(lengths_s[1:]) <= 0.010 + 0.013 * 4 + 1e-9
    assert max(lengths_s[:1]) <= 0.010 + 0.013 * 32
