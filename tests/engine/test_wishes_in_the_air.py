"""Rows that ask for more than a draw: they fly, and what they ask for goes up in one copy."""

import pytest

from localpaged.engine.device_sampler import DeviceSampler
from localpaged.engine.params import BeamParams, DryParams, Grammar
from localpaged_kernels.paged_attention import beginnings
from testkit.engine_runs import collect, drain, make_request, run
from testkit.fake_device import FakeDevice
from testkit.gpu_runs import Bench, requests, told


def counts(device):
    return (device.num_uploads, device.num_downloads, device.num_waits, device.num_replays)


ASKED = {
    "penalties": {"repetition_penalty": 1.4, "frequency_penalty": 0.4, "logit_bias": ((3, 1.03),)},
    "dry": {"dry": DryParams(1.0)},
    "logprobs": {"logprobs": 3},
    "least length": {"min_tokens": 60, "stop_token_ids": (46, 45, 44)},
    "grammar": {"grammar": Grammar("regex", "[0-9A-F]{60}")},
}


@pytest.mark.parametrize("options", ASKED.values(), ids=ASKED)
def test_who_asks_for_more_than_a_draw_flies_with_the_others(options):
    """One copy more goes up, while the model computes: what the draw follows from."""
    device = FakeDevice()
    core = Bench(device).core
    asked = [*requests("ac", max_tokens=60, temperature=0.8, seed=2, **options)]
    asked += requests("bd", max_tokens=60, temperature=0.8, seed=3)
    outcomes = {}
    for request in asked:
        collect(outcomes, core.submit(request))
    for _ in range(20):
        collect(outcomes, core.step())
    device.hidden.clear()
    counted = []
    for _ in range(10):
        before = counts(device)
        collect(outcomes, core.step())
        assert sum(s.num_ahead for s in core.scheduler.running) == 4
        counted.append(tuple(b - a for a, b in zip(before, counts(device), strict=True)))
    assert all(each[1:] == (1, 1, 1) and each[0] <= 2 for each in counted)
    assert device.hidden == []
    drain(core, outcomes)
    expected = run(Bench(None).core, asked)
    assert {n: told(o) for n, o in outcomes.items()} == {n: told(o) for n, o in expected.items()}


def test_a_step_with_prompts_goes_up_in_one_copy(monkeypatch):
    """Whatever its rows ask for, and whoever shares a beginning."""
    monkeypatch.setattr(beginnings, "SMALLEST_SAVING_TOKENS", 8)
    device = FakeDevice()
    core = Bench(device, step_tokens=12, max_drafts=2).core
    outcomes = {}
    special = {"temperature": 0.8, "seed": 2, "logprobs": 2, "repetition_penalty": 1.2}
    for request in requests("cd", max_tokens=60, **special):
        collect(outcomes, core.submit(request))
    for _ in range(12):
        collect(outcomes, core.step())
    beam = {"num_samples": 2, "beam": BeamParams(3), "temperature": 0.0, "seed": None}
    samples = {"num_samples": 3, "prompt_logprobs": 2}
    collect(outcomes, core.submit(make_request("e", [7] * 40, max_tokens=9, **beam)))
    collect(outcomes, core.submit(make_request("f", [8] * 40, max_tokens=9, **samples)))
    collect(outcomes, core.step())  # the flight in the air lands
    num_mixed = 0
    for _ in range(12):
        before, num_copies = counts(device), core.scheduler.kv.num_copies
        device.hidden.clear()
        collect(outcomes, core.step())
        after = tuple(b - a for a, b in zip(before, counts(device), strict=True))
        num_mixed += after == (1, 1, 1, 0)
        assert after[:3] == (1, 1, 1)
        # the numbers of blocks that are copied go up by themselves, and nobody waits for them
        assert device.hidden == [] or core.scheduler.kv.num_copies > num_copies
    assert num_mixed >= 6


def test_draws_that_break_when_their_step_is_under_way_are_contained(monkeypatch):
    ours = Bench(FakeDevice())
    outcomes = {}
    special = {"temperature": 0.8, "seed": 2, "repetition_penalty": 1.2}
    asked = [*requests("a", max_tokens=20, **special), *requests("b", max_tokens=20)]
    for request in asked:
        collect(outcomes, ours.core.submit(request))
    for _ in range(6):
        collect(outcomes, ours.core.step())
    left = [1]

    def decide(*args):
        if left[0]:
            left[0] -= 1
            raise RuntimeError("out of memory")
        return DeviceSampler.decide(ours.runner._sampler, *args)

    monkeypatch.setattr(ours.runner._sampler, "decide", decide)
    drain(ours.core, outcomes)
    assert not left[0]
    expected = run(Bench(None).core, asked)
    assert {n: told(o) for n, o in outcomes.items()} == {n: told(o) for n, o in expected.items()}
