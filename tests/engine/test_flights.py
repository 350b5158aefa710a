"""Steps that are launched before the tokens of the one before them have reached the host."""

from itertools import count

import pytest

from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import BeamParams, Grammar
from localpaged.engine.step_plan import UNKNOWN_TOKEN, RowResult
from testkit.engine_runs import collect, drain, make_core, make_request, run
from testkit.fake_runner import FakeRunner, FlyingFakeRunner, expected_answer, next_token

PROMPTS = {"a": [1, 2, 3], "b": [9] * 20, "c": [4, 5] * 16}


class Flights(FlyingFakeRunner):
    """Notes each launch: its rows, and whether it was ahead."""

    def __init__(self, num_blocks=64, **options):
        super().__init__(num_blocks, **options)
        self.launched = []
        self.flights = []

    def launch(self, plan, *, after=None):
        self.launched.append((plan, after is not None))
        self.flights.append(super().launch(plan, after=after))
        return self.flights[-1]

    @property
    def told(self):
        """Rows of which more was told after their launch."""
        return [row for flight in self.flights for row in flight.told]

    @property
    def ahead(self):
        return [plan for plan, is_ahead in self.launched if is_ahead]


def make(num_blocks=64, *, block_size=16, max_drafts=0, eos_ids=frozenset(), **options):
    config = {"block_size": block_size, "max_drafts": max_drafts}
    for name in (
        "max_running",
        "context_length",
        "initial_blocks",
        "slab_blocks",
        "host_blocks",
        "host_use",
        "clock",
    ):
        if name in options:
            config[name] = options.pop(name)
    runner = Flights(num_blocks, block_size=block_size, **options)
    core = make_core(num_blocks=num_blocks, runner=runner, eos_ids=eos_ids, **config)
    return core, runner


def start(core, *, steps=4, **requests):
    """Submit and step until all decode; return outcomes so far."""
    outcomes = {}
    for name, options in requests.items():
        collect(outcomes, core.submit(make_request(name, PROMPTS[name], **options)))
    for _ in range(steps):
        collect(outcomes, core.step())
        core.check()
    return outcomes


def idle_pool(core):
    pool = core.scheduler.kv.pool
    assert pool.num_held == 0 and pool.num_free + pool.num_cached == pool.num_blocks
    return True


def test_a_decode_is_launched_before_the_tokens_of_the_one_before_it_are_known():
    core, runner = make()
    outcomes = run(core, [make_request(n, p, max_tokens=20) for n, p in PROMPTS.items()])
    for name, prompt in PROMPTS.items():
        assert outcomes[name].token_ids == expected_answer(prompt, 20)
    assert len(runner.ahead) >= 18
    assert all(row.token_ids == (UNKNOWN_TOKEN,) for plan in runner.ahead for row in plan.rows)
    assert idle_pool(core)


def test_each_draw_ahead_has_the_number_of_its_token():
    core, runner = make()
    run(core, [make_request("a", PROMPTS["a"], max_tokens=6, temperature=1.0, seed=3)])
    draws = [row.draws[0] for plan, _ in runner.launched for row in plan.rows if row.draws]
    assert [draw.index for draw in draws] == [0, 1, 2, 3, 4, 5]
    assert {draw.seed for draw in draws} == {3}


def test_nothing_is_computed_for_an_answer_that_is_certain_to_end():
    core, runner = make()
    run(core, [make_request("a", PROMPTS["a"], max_tokens=5)])
    assert sum(len(plan.rows) for plan, _ in runner.launched) == 5


def test_an_answer_that_fills_the_context_ends_there():
    core, runner = make(2, context_length=32)
    outcome = run(core, [make_request("a", PROMPTS["a"], max_tokens=None)])["a"]
    assert outcome.token_ids == expected_answer(PROMPTS["a"], 29)
    assert max(row.end for plan, _ in runner.launched for row in plan.rows) == 31


def test_a_row_that_ended_unforeseen_is_dropped_from_the_flight():
    expected = {name: expected_answer(prompt, 12) for name, prompt in PROMPTS.items()}
    eos = expected["a"][4]
    core, _ = make(eos_ids=frozenset({eos}))
    requests = [make_request(n, p, max_tokens=12, ignore_eos=n != "a") for n, p in PROMPTS.items()]
    outcomes = run(core, requests)
    assert outcomes["a"].finish.reason is FinishReason.STOP
    assert outcomes["a"].token_ids == expected["a"][: expected["a"].index(eos) + 1]
    for name in "bc":
        assert outcomes[name].token_ids == expected[name]
    assert idle_pool(core)


@pytest.mark.parametrize("names", ["a", "abc"], ids=["one of three", "all"])
def test_what_is_cancelled_in_the_air_leaves_nothing_behind(names):
    core, runner = make()
    outcomes = start(core, **{name: {"max_tokens": 30} for name in "abc"})
    assert runner.ahead and any(s.num_ahead for s in core.scheduler.running)
    for name in names:
        collect(outcomes, core.cancel(name))
        core.check()
    drain(core, outcomes)
    outcomes |= run(core, [make_request("again", PROMPTS["a"], max_tokens=9)])
    assert outcomes["again"].token_ids == expected_answer(PROMPTS["a"], 9)
    for name, prompt in PROMPTS.items():
        length = len(outcomes[name].token_ids)
        assert outcomes[name].token_ids == expected_answer(prompt, length)
        assert length == 30 or name in names
    assert idle_pool(core)


def test_who_is_preempted_in_the_air_goes_on_with_the_right_token():
    core, _ = make()
    outcomes = start(core, a={"max_tokens": 30}, b={"max_tokens": 30})
    assert core.scheduler.running[0].num_ahead
    core.scheduler._preempt(core.scheduler.running[0])
    core.check()
    drain(core, outcomes)
    for name in "ab":
        assert outcomes[name].token_ids == expected_answer(PROMPTS[name], 30)
    assert idle_pool(core)


def test_who_waits_is_let_in_by_the_next_step():
    core, runner = make()
    outcomes = start(core, a={"max_tokens": 40})
    collect(outcomes, core.submit(make_request("b", PROMPTS["b"], max_tokens=5)))
    num_launched = len(runner.launched)
    collect(outcomes, core.step())  # the flight in the air lands; nothing follows it
    assert len(runner.launched) == num_launched
    collect(outcomes, core.step())
    assert {row.request_id for row in runner.plans[-1].rows} == {"a", "b"}
    drain(core, outcomes)
    assert outcomes["b"].token_ids == expected_answer(PROMPTS["b"], 5)


def test_a_queue_behind_a_full_house_keeps_nobody_on_the_ground():
    core, runner = make(max_running=1)
    outcomes = start(core, a={"max_tokens": 20}, b={"max_tokens": 20})
    assert len(core.scheduler.waiting) == 1 and runner.ahead
    drain(core, outcomes)
    for name in "ab":
        assert outcomes[name].token_ids == expected_answer(PROMPTS[name], 20)


def test_no_block_is_evicted_and_the_pool_does_not_grow_for_a_step_ahead():
    core, runner = make(12, block_size=4, initial_blocks=6, slab_blocks=2)
    outcomes = start(core, a={"max_tokens": 24}, steps=0)
    kv = core.scheduler.kv
    while not core.is_idle:
        before = (kv.pool.num_blocks, kv.num_evicted, len(runner.launched))
        collect(outcomes, core.step())
        core.check()
        launched = runner.launched[before[2] :]
        if all(is_ahead for _, is_ahead in launched):
            assert (kv.pool.num_blocks, kv.num_evicted) == before[:2]
    assert kv.pool.num_blocks > 6
    assert outcomes["a"].token_ids == expected_answer(PROMPTS["a"], 24)


def test_what_is_to_go_to_host_memory_is_read_before_a_flight_writes_there():
    core, runner = make(16, block_size=4, host_blocks=16, host_use="always")
    old = [3, 1, 4, 1, 5, 9, 2, 6] * 3
    run(core, [make_request("old", old, max_tokens=2)])
    outcomes = start(core, a={"max_tokens": 24})
    kv = core.scheduler.kv
    assert kv.pool.num_cached and core.scheduler.running[0].num_ahead
    kv._make_room(kv.pool.num_free + kv.pool.num_cached)  # as somebody does between two steps
    assert kv.host.has_moves
    drain(core, outcomes)
    again = run(core, [make_request("again", old, max_tokens=6)])["again"]
    assert core.snapshot().swapped_in_blocks > 0
    assert again.token_ids == expected_answer(old, 6)
    assert outcomes["a"].token_ids == expected_answer(PROMPTS["a"], 24)
    assert runner.ahead


SPECIAL = {
    "logprobs": {"logprobs": 1},
    "repetition": {"repetition_penalty": 1.3},
    "bias": {"logit_bias": ((3, 1.0),)},
    "least length": {"min_tokens": 30},
}


@pytest.mark.parametrize("sampling", SPECIAL.values(), ids=SPECIAL)
def test_what_changes_logits_keeps_nobody_on_the_ground(sampling):
    core, runner = make()
    asked = [make_request("a", PROMPTS["a"], max_tokens=40, **sampling)]
    outcomes = run(core, [*asked, make_request("b", PROMPTS["b"], max_tokens=40)])
    for name in "ab":
        assert outcomes[name].token_ids == expected_answer(PROMPTS[name], 40)
    assert len(runner.ahead) >= 38
    assert idle_pool(core)


def test_a_draw_looks_back_on_tokens_that_were_not_known_at_its_launch():
    core, runner = make()
    outcomes = run(core, [make_request("a", PROMPTS["a"], max_tokens=20, presence_penalty=0.5)])
    tokens = [*PROMPTS["a"], *outcomes["a"].token_ids]
    assert len(runner.told) == 18
    assert all(row.history == tuple(tokens[: row.end]) for row in runner.told)
    assert all(not row.is_open and row.draws[0].index == row.end - 3 for row in runner.told)


def test_an_end_is_barred_until_an_answer_is_long_enough():
    end = next(i for i in range(256) if i not in expected_answer(PROMPTS["a"], 12))
    core, runner = make(eos_ids=frozenset({end}))
    run(core, [make_request("a", PROMPTS["a"], max_tokens=12, min_tokens=6, ignore_eos=False)])
    rows = [row for plan, _ in runner.launched for row in plan.rows if row.draws]
    assert [bool(row.is_open or row.barred_ids) for row in rows] == [True] * 6 + [False] * 6
    assert all(row.barred_ids == (end,) for row in runner.told if row.draws[0].index < 6)
    assert not any(row.barred_ids for row in runner.told if row.draws[0].index >= 6)


def test_a_grammar_is_followed_in_the_air():
    core, runner = make(sample=lambda name, history: RowResult((ord("a"),)))
    grammar = Grammar("regex", "a{6}")
    outcomes = run(core, [make_request("a", PROMPTS["a"], max_tokens=20, grammar=grammar)])
    assert outcomes["a"].text == "aaaaaa"
    told = [row for row in runner.told if not row.is_open]
    assert len(told) == 4, "after the prompt's draw and the first decode's"
    assert all(row.allowed is not None for row in told)
    assert idle_pool(core)


def test_beams_stay_on_the_ground():
    core, runner = make()
    beam = BeamParams(2)
    run(core, [make_request("a", PROMPTS["a"], max_tokens=8, beam=beam, temperature=0.0)])
    assert not runner.ahead


def test_an_answer_that_repeats_itself_is_guessed_instead():
    sample = lambda name, history: RowResult((7,))  # noqa: E731
    # by a clock of steps a draft costs nothing, however busy the machine is
    core, _ = make(max_drafts=4, sample=sample, clock=count().__next__)
    outcome = run(core, [make_request("a", PROMPTS["a"], max_tokens=60)])["a"]
    assert outcome.token_ids == [7] * 60
    assert core.scheduler.num_drafts_right > 20


@pytest.mark.parametrize("is_before", [True, False], ids=["launch", "under way"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_flight_that_breaks_is_contained(is_before, times):
    left = [0]

    def fail(plan):
        if left[0]:
            left[0] -= 1
            raise RuntimeError("as told")

    core, _ = make(**{"before_run" if is_before else "after_run": fail})
    outcomes = start(core, a={"max_tokens": 30}, b={"max_tokens": 30})
    left[0] = times
    for _ in range(3):
        collect(outcomes, core.step())
        core.check()
    assert not left[0]
    drain(core, outcomes)
    for name in "ab":
        answer = outcomes[name]
        assert answer.token_ids == expected_answer(PROMPTS[name], len(answer.token_ids))
        assert len(answer.token_ids) == 30 or answer.fail is not None
    if times == 1:
        assert all(outcomes[name].fail is None for name in "ab")
    assert idle_pool(core)


def test_a_row_whose_numbers_are_not_finite_ends_alone():
    def sample(name, history):
        if name == "a" and len(history) > 8:
            return RowResult(error="not finite")
        return RowResult((next_token(history),))

    core, runner = make(sample=sample)
    outcomes = run(core, [make_request(n, PROMPTS[n], max_tokens=20) for n in "ab"])
    assert outcomes["a"].fail is not None
    assert outcomes["b"].token_ids == expected_answer(PROMPTS["b"], 20)
    assert runner.ahead and idle_pool(core)


def test_branches_fly_after_they_have_parted():
    core, runner = make()
    outcome = run(core, [make_request("a", PROMPTS["b"], max_tokens=12, num_samples=3)])["a"]
    for branch in range(3):
        assert outcome.branch(branch).token_ids == expected_answer(PROMPTS["b"], 12, branch)
    assert any(len(plan.rows) == 3 for plan in runner.ahead)


def test_a_runner_that_cannot_fly_is_asked_for_one_step_at_a_time():
    runner = FakeRunner(64)
    core = make_core(runner=runner)
    run(core, [make_request("a", PROMPTS["a"], max_tokens=6)])
    assert len(runner.plans) == 6
    assert all(s.num_ahead == 0 for s in core.scheduler.sequences)
