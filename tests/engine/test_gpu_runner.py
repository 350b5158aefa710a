"""The GPU's runner on a fake device: the CPU's answers, from graphs, without a wait.

The model is one of integers, so that everything can be compared exactly.
"""

from random import Random

import pytest
import torch

from localpaged.engine.block_pool import READ_PAD_BLOCK, WRITE_PAD_BLOCK
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.graphs import graph_sizes
from localpaged.engine.params import BeamParams, Grammar
from localpaged_kernels.paged_attention import beginnings
from testkit.engine_runs import collect, drain, make_request, run
from testkit.fake_device import FakeDevice
from testkit.gpu_runs import PROMPTS, Bench, requests, told
from testkit.history_model import HistoryModel


def both(asked, **options):
    """Return what the CPU's runner and the GPU's answer, and the latter's bench."""
    ours = Bench(FakeDevice(), **options)
    expected = run(Bench(None, **options).core, asked)
    outcomes = run(ours.core, asked)
    assert any(o.finish for o in expected.values())
    answers = [{name: told(o) for name, o in each.items()} for each in (expected, outcomes)]
    return (*answers, ours)


DRAWS = {
    "greedy": {},
    "temperature": {"temperature": 0.9},
    "top-k": {"temperature": 1.3, "top_k": 5},
    "top-p": {"temperature": 1.0, "top_p": 0.6},
    "min-p": {"temperature": 1.0, "min_p": 0.2},
    "all": {"temperature": 1.1, "top_k": 20, "top_p": 0.8, "min_p": 0.05},
}


@pytest.mark.parametrize("sampling", DRAWS.values(), ids=DRAWS)
def test_a_seed_draws_what_it_draws_on_the_processor(sampling):
    expected, answers, ours = both(requests(seed=11, **sampling))
    assert answers == expected
    assert ours.device.num_replays > 0


SPECIAL = {
    "repetition": {"repetition_penalty": 1.4},
    "presence, frequency": {"presence_penalty": 0.5, "frequency_penalty": 0.4},
    "bias": {"logit_bias": ((3, 4.0), (5, -2.0))},
    "least length": {"min_tokens": 4, "stop_token_ids": (46, 45, 44)},
    "logprobs": {"logprobs": 3},
    "grammar": {"grammar": Grammar("regex", "[0-9A-F]{4,9}")},
    "samples": {"num_samples": 3, "seed": 3},
    "beams": {"num_samples": 2, "beam": BeamParams(3), "temperature": 0.0, "seed": None},
    "prompt logprobs": {"prompt_logprobs": 2},
}


@pytest.mark.parametrize("options", SPECIAL.values(), ids=SPECIAL)
def test_what_torch_does_to_logits_is_the_same_beside_plain_rows(options):
    special = {"temperature": 0.8, "seed": 5, **options}
    asked = [*requests("ac", **special), *requests("bd", temperature=0.8, seed=6)]
    expected, answers, _ = both(asked)
    assert answers == expected


def test_drafts_are_checked_on_the_device():
    asked = requests("abc", max_tokens=60, repetition_penalty=1.0)
    expected, answers, ours = both(asked, max_drafts=4, model=Repeating())
    assert answers == expected
    assert ours.core.scheduler.num_drafts_right > 10


class Repeating(HistoryModel):
    """Says one token again and again."""

    def logits(self, hidden):
        logits = super().logits(hidden)
        logits[:, 7] = 100.0
        return logits


@pytest.mark.parametrize("host_use", ["never", "always"], ids=["recomputed", "swapped"])
def test_a_pool_that_is_too_small(host_use):
    asked = requests(max_tokens=20, temperature=0.7, seed=1)
    expected, answers, ours = both(asked, num_blocks=12, host_blocks=20, host_use=host_use)
    assert answers == expected
    assert ours.core.snapshot().preemptions > 0


def test_the_host_waits_once_a_step_and_copies_once_each_way():
    device = FakeDevice()
    core = Bench(device).core
    outcomes = {}
    for request in requests(max_tokens=40, temperature=0.8, seed=2):
        collect(outcomes, core.submit(request))
    for _ in range(12):
        collect(outcomes, core.step())
    device.hidden.clear()
    counted = []
    for _ in range(10):
        before = (device.num_uploads, device.num_downloads, device.num_waits, device.num_replays)
        collect(outcomes, core.step())
        after = (device.num_uploads, device.num_downloads, device.num_waits, device.num_replays)
        counted.append(tuple(b - a for a, b in zip(before, after, strict=True)))
    assert counted == [(1, 1, 1, 1)] * 10
    assert device.hidden == []


def test_a_step_is_launched_before_the_last_one_is_waited_for():
    order = []

    class Ordered(FakeDevice):
        def upload(self, source, target):
            order.append("launch")
            super().upload(source, target)

        def settle(self, num_uploads):
            order.append("wait")
            super().settle(num_uploads)

    core = Bench(Ordered()).core
    outcomes = {}
    collect(outcomes, core.submit(make_request("a", PROMPTS["a"], max_tokens=30)))
    for _ in range(8):
        collect(outcomes, core.step())
    assert order[-6:] == ["launch", "wait"] * 3
    assert order.count("launch") == order.count("wait") + 1


def test_graphs_are_recorded_when_they_are_needed_first():
    ours = Bench(FakeDevice())
    ours.runner.warm_up()
    assert ours.runner.num_graphs == 1
    run(ours.core, requests("a", max_tokens=12))
    assert ours.runner.num_graphs == 2, "and a short chunk"
    run(ours.core, requests("abc", max_tokens=12))
    assert ours.device.num_captures == ours.runner.num_graphs <= 4
    assert ours.runner.note == ""


@pytest.mark.parametrize(
    ("max_rows", "sizes"),
    [
        (1, (1,)),
        (8, (1, 2, 4, 8)),
        (12, (1, 2, 4, 8, 12)),
        (64, (1, 2, 4, 8, 16, 32, 64)),
        (256, (1, 4, 8, 16, 32, 64, 128, 256)),
    ],
)
def test_there_are_eight_sizes_at_most(max_rows, sizes):
    assert graph_sizes(max_rows) == sizes


def test_graphs_are_recorded_anew_when_the_pool_has_moved():
    expected, answers, ours = both(
        requests("ab", max_tokens=40), num_blocks=64, initial_blocks=8, slab_blocks=8
    )
    assert answers == expected
    assert ours.kv.num_blocks > 8
    assert ours.runner.num_graphs > 2


def test_what_cannot_be_recorded_is_done_step_by_step_and_told():
    asked = requests(max_tokens=12, temperature=0.9, seed=4)
    expected = run(Bench(None).core, asked)
    ours = Bench(FakeDevice(refuses=lambda: True))
    outcomes = run(ours.core, asked)
    assert {n: told(o) for n, o in outcomes.items()} == {n: told(o) for n, o in expected.items()}
    assert "as told" in ours.core.snapshot().runner_note
    assert ours.device.num_replays == 0


def test_without_graphs_steps_fly_as_well():
    asked = requests(max_tokens=12, temperature=0.9, seed=4)
    expected = run(Bench(None).core, asked)
    ours = Bench(FakeDevice(), has_graphs=False)
    outcomes = run(ours.core, asked)
    assert {n: told(o) for n, o in outcomes.items()} == {n: told(o) for n, o in expected.items()}
    assert ours.core.snapshot().runner_note
    assert ours.device.num_captures == 0


def test_rows_that_fill_a_graph_up_read_zeros_and_write_where_nobody_reads():
    ours = Bench(FakeDevice())
    outcomes = {}
    for request in requests("abc", max_tokens=30):
        collect(outcomes, ours.core.submit(request))
    for _ in range(4):
        collect(outcomes, ours.core.step())
    numbers = ours.kv.layers[0].numbers
    before = numbers.clone()
    for _ in range(6):
        collect(outcomes, ours.core.step())
    changed = set((numbers != before).flatten(1).any(1).nonzero()[:, 0].tolist())
    held = {block for s in ours.core.scheduler.running for block in s.block_table}
    assert changed - held <= {WRITE_PAD_BLOCK}
    assert (numbers[READ_PAD_BLOCK] == 0).all()
    assert (numbers[WRITE_PAD_BLOCK, :1] == 0).all()  # was loud: a row of padding wrote here


def test_a_row_that_is_not_finite_fails_alone_and_its_flight_does_no_harm():
    expected, answers, ours = both(
        requests(max_tokens=14), model=HistoryModel(broken_at=len(PROMPTS["a"]) + 6)
    )
    assert answers == expected
    assert answers["a"][0][2] is not None
    pool = ours.core.scheduler.kv.pool
    assert pool.num_held == 0


def test_what_is_given_up_in_the_air_is_waited_for_before_its_memory_is_used_again():
    ours = Bench(FakeDevice())
    outcomes = {}
    for turn in range(6):
        options = {"repetition_penalty": 1.2 if turn % 2 else 1.0}
        request = make_request(f"{turn}", [turn] * 5, max_tokens=40, **options)
        collect(outcomes, ours.core.submit(request))
        for _ in range(4):
            collect(outcomes, ours.core.step())
        collect(outcomes, ours.core.cancel(f"{turn}"))
        ours.core.check()
    collect(outcomes, ours.core.submit(make_request("last", PROMPTS["a"], max_tokens=9)))
    drain(ours.core, outcomes)
    assert (
        outcomes["last"].token_ids
        == run(Bench(None).core, requests("a", max_tokens=9))["a"].token_ids
    )


@pytest.mark.parametrize("count", [1, 2], ids=["ahead", "ahead and planned again"])
def test_a_step_that_breaks_when_its_copy_has_begun_is_contained(count):
    class Breaking(HistoryModel):
        left = 0

        def forward(self, batch, kv):
            if self.left:
                self.left -= 1
                raise RuntimeError("out of memory")
            return super().forward(batch, kv)

    model = Breaking()
    ours = Bench(FakeDevice(), model=model, has_graphs=False)
    outcomes = {}
    for request in requests("ab", max_tokens=20):
        collect(outcomes, ours.core.submit(request))
    for _ in range(6):
        collect(outcomes, ours.core.step())
    model.left = count
    drain(ours.core, outcomes)
    expected = run(Bench(None).core, requests("ab", max_tokens=20))
    for name in "ab":
        assert outcomes[name].token_ids == expected[name].token_ids


def test_unsampled_chunks_of_a_prompt_come_back_too():
    expected, answers, _ = both(requests("bc", max_tokens=4), step_tokens=5)
    assert answers == expected


def test_the_pool_is_loud_and_nothing_behind_an_end_is_read():
    ours = Bench(FakeDevice())
    ours.kv.layers[0].numbers[1:] = torch.inf
    outcomes = run(ours.core, requests("a", max_tokens=12))
    expected = run(Bench(None).core, requests("a", max_tokens=12))
    assert outcomes["a"].token_ids == expected["a"].token_ids


@pytest.mark.parametrize("walk", range(4))
def test_whatever_comes_and_goes_each_answer_is_its_own(walk):
    """Sizes change, the pool moves and is too small, answers are cut off and begun again."""
    random = Random(walk)
    ours = Bench(FakeDevice(), num_blocks=40, initial_blocks=12, slab_blocks=9, max_running=6)
    outcomes, asked = {}, {}
    for number in range(60):
        if random.random() < 0.4:
            prompt = [random.choice((4, 5)) for _ in range(random.randint(1, 30))]
            request = make_request(
                f"{number}",
                prompt,
                max_tokens=random.randint(1, 25),
                temperature=random.choice((0.0, 0.8)),
                top_k=random.choice((0, 7)),
                seed=number,
                repetition_penalty=random.choice((1.0, 1.0, 1.0, 1.37)),
            )
            asked[request.id] = request
            collect(outcomes, ours.core.submit(request))
        if random.random() < 0.1 and asked:
            collect(outcomes, ours.core.cancel(random.choice(list(asked))))
        for _ in range(random.randint(0, 4)):
            collect(outcomes, ours.core.step())
            ours.core.check()
    drain(ours.core, outcomes)
    assert len(asked) > 12 and ours.device.num_replays > 30
    for name, request in asked.items():
        alone = run(Bench(None).core, [request])[name]
        found = outcomes[name].token_ids
        assert found == alone.token_ids[: len(found)]
        is_cut = outcomes[name].finish.reason is FinishReason.CANCELLED
        assert is_cut or len(found) == len(alone.token_ids)


class Sharing(HistoryModel):
    """Notes in which steps somebody shared a beginning; the answers are the same."""

    def __init__(self):
        super().__init__()
        self.shared = []

    def forward(self, batch, kv):
        groups = batch.attention.shared.get(("device groups", batch.token_ids.device))
        self.shared.append(groups is not None)
        if groups is not None:
            assert len(groups.members) == len(groups.skips) == batch.attention.num_decodes
        return super().forward(batch, kv)


@pytest.mark.parametrize("has_cascade", [True, False], ids=["together", "each alone"])
def test_who_shares_a_beginning_has_a_graph_of_its_own(monkeypatch, has_cascade):
    monkeypatch.setattr(beginnings, "SMALLEST_SAVING_TOKENS", 8)
    model = Sharing()
    ours = Bench(FakeDevice(), model=model, has_cascade=has_cascade)
    asked = requests("cd", max_tokens=8)
    outcomes = run(ours.core, asked)
    expected = run(Bench(None).core, asked)
    assert {n: told(o) for n, o in outcomes.items()} == {n: told(o) for n, o in expected.items()}
    assert any(model.shared) == has_cascade


def test_more_rows_than_there_is_room_for_stay_on_the_ground(caplog):
    """Branches begin beside their siblings, however many run."""
    asked = requests("a", max_tokens=8, num_samples=5, temperature=0.9, seed=2)
    expected, answers, _ = both(asked, max_running=2)
    assert answers == expected
    assert not caplog.records
