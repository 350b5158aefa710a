"""KV that the pool gives up goes to host memory and comes back; only the clock can tell."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from localpaged.engine.host_tier import HostTier
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.pace import Pace
from localpaged.engine.params import BeamParams, EngineConfig
from localpaged.engine.step_plan import BlockMove
from localpaged.engine.swap_pace import SwapPace
from localpaged.errors import BadParameter
from testkit.decoders import load_decoder
from testkit.engine_runs import Outcome, collect, drain, make_core, make_request, run
from testkit.fake_runner import FakeRunner, expected_answer
from testkit.tiny_model import save_tiny_model

SIZE = 16
CHATS = {f"chat {i}": [i, *range(60)] for i in range(10)}


def keys(*tokens):
    return [(token,) for token in tokens]


def swapping_core(*, num_blocks=12, host_blocks=200, host_use="always", **options):
    runner = options.pop("runner", None) or FakeRunner(num_blocks)
    core = make_core(
        num_blocks=num_blocks,
        context_length=options.pop("context_length", 100),
        runner=runner,
        host_blocks=host_blocks,
        host_use=host_use,
        **options,
    )
    return core, runner


def assert_answers(outcomes, prompts, num_tokens):
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == expected_answer(prompt, num_tokens), name


@pytest.mark.parametrize("host_use", ["always", "never"])
def test_more_chats_than_the_pool_holds_are_remembered(host_use):
    core, runner = swapping_core(host_use=host_use)
    for name, prompt in CHATS.items():
        run(core, [make_request(name, prompt)])
    first_round = runner.num_computed_tokens
    for name, prompt in CHATS.items():
        outcome = run(core, [make_request(f"{name} again", prompt)])[f"{name} again"]
        assert outcome.token_ids == expected_answer(prompt, 8)
        if host_use == "always":
            assert outcome.finish.usage.cached_tokens >= 48
    snapshot = core.snapshot()
    assert (snapshot.swapped_in_blocks > 0) == (host_use == "always")
    assert (snapshot.host_used_blocks > 0) == (host_use == "always")
    assert snapshot.host_total_blocks == 200
    recomputed = runner.num_computed_tokens - first_round
    assert (recomputed < first_round / 2) == (host_use == "always")


@pytest.mark.parametrize("host_use", ["always", "never"])
@pytest.mark.parametrize("host_blocks", [200, 7, 1])
def test_preempted_answers_do_not_change(host_use, host_blocks):
    core, _ = swapping_core(num_blocks=14, host_use=host_use, host_blocks=host_blocks)
    outcomes = run(core, [make_request(n, p, max_tokens=30) for n, p in CHATS.items()])
    assert_answers(outcomes, CHATS, 30)
    snapshot = core.snapshot()
    assert snapshot.preemptions > 0
    assert snapshot.held_blocks == 0
    assert snapshot.host_used_blocks <= host_blocks
    if host_blocks == 200:
        assert (snapshot.swapped_in_blocks > 0) == (host_use == "always")


def test_samples_and_beams_come_back_from_host_memory():
    core, _ = swapping_core(num_blocks=9, step_tokens=40)
    roomy = make_core()
    requests = [
        make_request("samples", range(37), num_samples=5, max_tokens=40),
        make_request("beam", range(50, 87), num_samples=3, beam=BeamParams(3), max_tokens=30),
    ]
    expected, outcomes = run(roomy, requests), run(core, requests)
    assert core.snapshot().preemptions > 0
    assert core.snapshot().swapped_in_blocks > 0
    for name, count in (("samples", 5), ("beam", 3)):
        for number in range(count):
            want = expected[name].branch(number).token_ids
            assert outcomes[name].branch(number).token_ids == want


def test_what_comes_back_is_not_copied_out_again():
    core, runner = swapping_core()
    for _ in range(3):
        for name, prompt in CHATS.items():
            run(core, [make_request(name, prompt, max_tokens=1)])
    outs = [move.slot for plan in runner.plans for move in plan.swap_outs]
    assert len(outs) == len(set(outs)) == core.snapshot().host_used_blocks
    assert core.snapshot().swapped_in_blocks > len(CHATS)


class TimedRunner(FakeRunner):
    """A token takes a millisecond, a move as long as it is told; `now_s` is the time."""

    def __init__(self, move_s):
        super().__init__(12)
        self.move_s = move_s
        self.now_s = 0.0

    def run(self, plan):
        swap_s = self.move_s * (len(plan.swap_outs) + len(plan.swap_ins))
        self.now_s += 0.001 * plan.num_tokens + swap_s
        return replace(super().run(plan), swap_s=swap_s)


@pytest.mark.parametrize(("move_s", "is_swapped"), [(0.001, True), (10.0, False)])
def test_the_measured_costs_choose_between_swap_and_recompute(move_s, is_swapped):
    runner = TimedRunner(move_s)
    core, _ = swapping_core(runner=runner, host_use="auto", clock=lambda: runner.now_s)
    for _ in range(2):
        outcomes = run(core, [make_request(n, p, max_tokens=20) for n, p in CHATS.items()])
        assert_answers(outcomes, CHATS, 20)
    assert core.snapshot().preemptions > 0
    assert (core.snapshot().swapped_in_blocks > 0) == is_swapped


class Breaking:
    """Fails the steps whose numbers it is told, before anything or after everything is written."""

    def __init__(self, steps):
        self.steps = steps
        self.number = 0

    def __call__(self, plan):
        self.number += 1
        if self.number in self.steps:
            raise RuntimeError("as told")


@pytest.mark.parametrize("when", ["before_run", "after_run"])
def test_a_failing_step_leaves_nothing_wrong_in_either_memory(when):
    breaking = Breaking(set(range(5, 400, 7)))
    runner = FakeRunner(12, **{when: breaking})
    core, _ = swapping_core(runner=runner)
    outcomes: dict[str, Outcome] = {}
    for _ in range(3):
        for name, prompt in CHATS.items():
            collect(outcomes, core.submit(make_request(name, prompt)))
        drain(core, outcomes)
        for name, prompt in CHATS.items():
            assert outcomes[name].fail is None
            assert outcomes.pop(name).token_ids == expected_answer(prompt, 8)
    assert breaking.number > 60
    assert core.snapshot().held_blocks == 0
    core.scheduler.kv.host.check(Counter())


def test_a_row_that_fails_with_its_blocks_on_the_way_gives_them_back():
    def fail_when_fetching(plan):
        if plan.swap_ins:
            raise RuntimeError("as told")

    runner = FakeRunner(12)
    core, _ = swapping_core(runner=runner)
    for name, prompt in CHATS.items():
        run(core, [make_request(name, prompt)])
    runner._before_run = fail_when_fetching
    outcome = run(core, [make_request("again", CHATS["chat 0"])])["again"]
    assert "as told" in outcome.fail.error.message
    assert core.snapshot().held_blocks == 0
    runner._before_run = lambda plan: None
    outcome = run(core, [make_request("again", CHATS["chat 0"])])["again"]
    assert outcome.token_ids == expected_answer(CHATS["chat 0"], 8)
    assert outcome.finish.usage.cached_tokens >= 48


def test_a_cancelled_fetch_unlocks_what_it_read():
    core, _ = swapping_core(step_tokens=4)
    for name, prompt in CHATS.items():
        run(core, [make_request(name, prompt)])
    core.submit(make_request("again", [*CHATS["chat 0"], 1, 2, 3, 4, 5, 6, 7, 8]))
    core.scheduler.plan()
    assert any(s.swap_ins for s in core.scheduler.running)
    core.cancel("again")
    core.check()
    assert core.snapshot().held_blocks == 0


def test_the_oldest_leaf_is_given_up_and_locked_slots_are_not():
    tier = HostTier(3)
    tier.store(keys(1, 2), [12])
    tier.store(keys(1), [11])
    tier.store(keys(5), [15])
    moves = tier.take_moves()
    assert [m.block for m in moves] == [12, 11, 15]
    assert tier.match(keys(1, 2), 0) == [], "not there before the step"
    tier.confirm(moves, has_moved=True)
    slots = tier.match(keys(1, 2), 0)
    assert slots == [1, 0]
    tier.lock(slots)
    tier.store(keys(6), [16])
    assert tier.match(keys(5), 0) == []
    tier.store(keys(7), [17])
    assert tier.num_used == 3
    tier.unlock(slots)
    tier.check(Counter())
    assert [m.block for m in tier.take_moves()] == [17], "16 gave its slot up before it was copied"


def test_a_prefix_is_found_behind_what_the_pool_has():
    tier = HostTier(4)
    tier.store(keys(1, 2, 3, 4), [13, 14])
    tier.confirm(tier.take_moves(), has_moved=True)
    assert len(tier.match(keys(1, 2, 3, 4), 2)) == 2
    assert len(tier.match(keys(1, 2, 3, 9), 2)) == 1
    assert tier.match(keys(1, 2, 3, 4), 1) == []
    assert tier.match(keys(1, 9), 2) == []


def test_storing_does_not_give_up_the_end_of_the_same_prefix():
    tier = HostTier(1)
    tier.store(keys(1, 2), [12])
    tier.store(keys(1), [11])
    tier.check(Counter())
    tier.store(keys(1, 2), [11, 12])
    tier.check(Counter())
    assert tier.num_used == 1


def test_a_discarded_prefix_is_forgotten_as_far_as_it_ends_there():
    tier = HostTier(5)
    tier.store(keys(1, 2, 3), [11, 12, 13])
    tier.store(keys(1, 9), [19])
    tier.confirm(tier.take_moves(), has_moved=True)
    tier.discard(keys(1, 2, 3))
    tier.check(Counter())
    assert len(tier.match(keys(1, 2, 3), 0)) == 1
    assert len(tier.match(keys(1, 9), 0)) == 2


@given(
    st.integers(0, 5),
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(1, 5), st.booleans()
        ),
        max_size=60,
    ),
)
def test_what_is_found_is_what_was_stored(num_slots, actions):
    tier = HostTier(num_slots)
    memory: dict[int, tuple] = {}
    for tokens, count, has_moved in actions:
        path = keys(*tokens)
        found = tier.match(path, 0)
        for depth, slot in enumerate(found):
            assert memory[slot] == tuple(path[: depth + 1])
        count = min(count, len(path))
        tier.lock(found)
        tier.check(Counter(found))
        # A block's number tells its prefix: depth and tokens.
        names = {100 + d: tuple(path[: d + 1]) for d in range(len(path))}
        tier.store(path, list(names)[len(path) - count :])
        moves = tier.take_moves()
        if has_moved:
            for move in moves:
                memory[move.slot] = names[move.block]
        tier.confirm(moves, has_moved=has_moved)
        tier.unlock(found)
        tier.check(Counter())


def pace_of(token_s):
    pace = Pace(stretch=2.0, stall_s=0.1, smallest_tokens=4, first_tokens=16, largest_tokens=512)
    pace.learn(num_decodes=0, num_prompt_tokens=100, context=0, seconds=100 * token_s)
    return pace


def test_the_cheaper_way_is_taken_and_a_slow_copy_is_forgiven():
    swap = SwapPace("auto", pace_of(0.001), block_size=16)
    assert swap.should_keep()
    swap.learn(num_blocks=10, seconds=10 * 0.012)
    assert swap.should_fetch(), "12 ms against 16"
    assert not swap.should_keep(), "24 ms against 16"
    for _ in range(100):
        swap.should_keep()
    assert swap.should_keep()


@pytest.mark.parametrize("use", ["always", "never"])
def test_costs_do_not_matter_when_they_may_not(use):
    swap = SwapPace(use, pace_of(1e-9), block_size=16)
    swap.learn(num_blocks=1, seconds=100.0)
    assert swap.should_keep() == swap.should_fetch() == (use == "always")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8], ids=str)
def test_storage_moves_everything_that_belongs_to_a_block(tmp_path, dtype):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "llama", "llama"))
    kv = KVStorage(decoder.config, num_blocks=4, block_size=16, dtype=dtype, host_blocks=3)
    for layer in kv.layers:
        layer.numbers.random_(0, 100)
        if layer.scales is not None:
            layer.scales.uniform_(1, 2)
    before = [(layer.numbers.clone(), layer.scales) for layer in kv.layers]
    scales = [None if s is None else s.clone() for _, s in before]
    kv.swap_out((BlockMove(2, 1), BlockMove(4, 0)))
    kv.poison()
    kv.swap_in((BlockMove(3, 0), BlockMove(5, 1)))
    for layer, (numbers, _), old in zip(kv.layers, before, scales, strict=True):
        assert torch.equal(layer.numbers[[3, 5]], numbers[[4, 2]])
        if layer.scales is not None:
            assert torch.equal(layer.scales[[3, 5]], old[[4, 2]])


@pytest.mark.parametrize(
    "wrong",
    [{"host_blocks": -1}, {"host_use": "maybe"}, {"initial_blocks": 0}, {"slab_blocks": 0}],
    ids=str,
)
def test_impossible_settings_are_refused_by_name(wrong):
    with pytest.raises(BadParameter, match=next(iter(wrong))):
        EngineConfig(num_blocks=4, context_length=64, **wrong)
