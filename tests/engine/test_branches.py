"""Several answers out of one prompt: samples and beams, on shared blocks."""

import pytest

from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import BeamParams, Request, SamplingParams
from localpaged.errors import BadParameter
from testkit.engine_runs import Outcome, collect, drain, make_core, make_request, run
from testkit.fake_runner import FakeRunner, expected_answer, expected_beams

PROMPT = list(range(100, 137))


def branches_of(outcome, count):
    return [outcome.branch(number) for number in range(count)]


def held(core):
    pool = core.scheduler.kv.pool
    assert pool.num_free + pool.num_held + pool.num_cached == pool.num_blocks
    return pool.num_held


def test_samples_read_the_prompt_once_and_share_its_blocks():
    runner = FakeRunner(64)
    core = make_core(runner=runner)
    outcomes: dict[str, Outcome] = {}
    collect(outcomes, core.submit(make_request("a", PROMPT, num_samples=4)))
    collect(outcomes, core.step())
    core.check()
    assert runner.num_computed_tokens == len(PROMPT)
    # Two full blocks for all, a tail of each one's own.
    assert held(core) == 2 + 4
    drain(core, outcomes)
    for number, outcome in enumerate(branches_of(outcomes["a"], 4)):
        first, *rest = outcome.token_ids
        assert first == expected_answer(PROMPT, 1, number)[0]
        assert rest == continue_branch([*PROMPT, first], 7, number)
    assert sum(o.finish.is_last for o in branches_of(outcomes["a"], 4)) == 1
    assert core.snapshot().block_copies == 3
    assert held(core) == 0


def continue_branch(history, count, branch):
    return expected_answer(history, count, branch)


def test_losers_can_be_stopped_while_others_go_on():
    core = make_core()
    outcomes: dict[str, Outcome] = {}
    collect(outcomes, core.submit(make_request("a", PROMPT, num_samples=3, max_tokens=20)))
    for _ in range(4):
        collect(outcomes, core.step())
    collect(outcomes, core.cancel("a", branch=1))
    core.check()
    drain(core, outcomes)
    reasons = [o.finish.reason for o in branches_of(outcomes["a"], 3)]
    assert reasons == [FinishReason.LENGTH, FinishReason.CANCELLED, FinishReason.LENGTH]
    assert [len(o.token_ids) for o in branches_of(outcomes["a"], 3)] == [20, 4, 20]


@pytest.mark.parametrize("branch", [0, 2])
def test_a_branch_can_be_cancelled_before_there_is_one(branch):
    core = make_core()
    outcomes: dict[str, Outcome] = {}
    collect(outcomes, core.submit(make_request("a", PROMPT, num_samples=3, max_tokens=20)))
    collect(outcomes, core.cancel("a", branch=branch))
    drain(core, outcomes)
    branches = branches_of(outcomes["a"], 3)
    assert [len(o.token_ids) for o in branches] == [1 if n == branch else 20 for n in range(3)]
    assert branches[branch].finish.reason is FinishReason.CANCELLED
    assert held(core) == 0


@pytest.mark.parametrize("num_steps", [0, 1, 2, 5])
def test_cancel_ends_every_branch_once(num_steps):
    core = make_core(step_tokens=20)
    outcomes: dict[str, Outcome] = {}
    collect(outcomes, core.submit(make_request("a", PROMPT, num_samples=3, max_tokens=50)))
    for _ in range(num_steps):
        collect(outcomes, core.step())
    collect(outcomes, core.cancel("a"))
    ends = [o.finish for o in branches_of(outcomes["a"], 3)]
    assert all(end.reason is FinishReason.CANCELLED for end in ends)
    assert [end.is_last for end in ends].count(True) == 1
    assert core.is_idle
    assert held(core) == 0


def test_samples_survive_a_pool_that_is_too_small_for_all_of_them():
    core = make_core(num_blocks=9, context_length=100)
    outcome = run(core, [make_request("a", PROMPT, num_samples=6, max_tokens=40)])["a"]
    assert core.snapshot().preemptions > 0
    for number, branch in enumerate(branches_of(outcome, 6)):
        first = branch.token_ids[0]
        assert branch.token_ids == [first, *continue_branch([*PROMPT, first], 39, number)]
    assert held(core) == 0


def test_a_failing_row_fails_the_request_with_all_its_branches():
    def before_run(plan):
        if any(row.start > len(PROMPT) + 2 and row.draws[0].branch == 1 for row in plan.rows):
            raise RuntimeError("broken")

    core = make_core(runner=FakeRunner(64, before_run=before_run))
    outcomes: dict[str, Outcome] = {}
    collect(outcomes, core.submit(make_request("a", PROMPT, num_samples=3, max_tokens=30)))
    collect(outcomes, core.submit(make_request("b", PROMPT, max_tokens=10)))
    drain(core, outcomes)
    assert "broken" in outcomes["a"].fail.error.message
    assert len(outcomes["b"].token_ids) == 10
    assert held(core) == 0


@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("num_blocks", [64, 5], ids=["roomy", "tight"])
def test_beams_are_those_of_the_plain_definition(width, num_blocks):
    core = make_core(num_blocks=num_blocks, context_length=80)
    request = make_request(
        "a", PROMPT, num_samples=width, beam=BeamParams(width=width), max_tokens=24
    )
    outcome = run(core, [request])["a"]
    answers = [branch.token_ids for branch in branches_of(outcome, width)]
    assert answers == expected_beams(PROMPT, width, 24)
    scores = [branch.finish.score for branch in branches_of(outcome, width)]
    assert scores == sorted(scores, reverse=True)
    assert held(core) == 0
    if num_blocks == 5 and width > 2:
        assert core.snapshot().preemptions > 0


def test_beams_share_the_prompt_with_each_other_and_with_later_requests():
    runner = FakeRunner(64)
    core = make_core(runner=runner)
    run(core, [make_request("a", PROMPT, beam=BeamParams(width=4), max_tokens=8)])
    assert runner.num_computed_tokens <= len(PROMPT) + 7 * 4
    usage = run(core, [make_request("b", PROMPT)])["b"].finish.usage
    assert usage.cached_tokens >= 32


def test_a_cancelled_beam_search_gives_what_it_has():
    core = make_core()
    outcomes: dict[str, Outcome] = {}
    request = make_request("a", PROMPT, beam=BeamParams(width=3), max_tokens=40)
    collect(outcomes, core.submit(request))
    for _ in range(6):
        collect(outcomes, core.step())
    collect(outcomes, core.cancel("a"))
    assert outcomes["a"].finish.reason is FinishReason.CANCELLED
    assert len(outcomes["a"].token_ids) == 6
    assert core.is_idle
    assert held(core) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: BeamParams(width=1),
        lambda: BeamParams(width=2, early_stopping="maybe"),  # type: ignore[arg-type]
        lambda: BeamParams(width=2, length_penalty=float("nan")),
        lambda: Request("a", (1,), SamplingParams(), num_samples=0),
        lambda: Request("a", (1,), SamplingParams(), num_samples=3, beam=BeamParams(width=2)),
    ],
)
def test_impossible_branches_are_refused(make):
    with pytest.raises(BadParameter):
        make()
