"""Draws without sorting are the draws of the sorted reference, which are the engine's."""

import random

import pytest
import torch

from localpaged.engine.drawing import DrawTask, draw_tokens, uniform
from localpaged.engine.params import SamplingParams
from localpaged.engine.step_plan import Draw
from localpaged_kernels.sampling import reference, triton_impl
from testkit.triton_inputs import DEVICE

SETTINGS = [  # temperature, top_k, top_p, min_p
    (0.0, 0, 1.0, 0.0),
    (1.0, 0, 1.0, 0.0),
    (0.7, 0, 1.0, 0.05),
    (1.3, 5, 1.0, 0.0),
    (1.0, 1, 1.0, 0.0),
    (0.9, 0, 0.8, 0.0),
    (1.0, 40, 0.95, 0.0),
    (1.0, 20, 0.9, 0.1),
    (2.0, 10_000, 0.5, 0.3),
    (1e-6, 0, 0.9, 0.0),
    (1.0, 0, 1e-30, 0.0),
]


def parameters(settings, numbers):
    temperatures, top_k, top_p, min_p = zip(*settings, strict=True)
    return {
        "temperatures": torch.tensor(temperatures),
        "top_k": torch.tensor(top_k, dtype=torch.int32),
        "top_p": torch.tensor(top_p),
        "min_p": torch.tensor(min_p),
        "numbers": torch.tensor(numbers),
    }


def draw(logits, settings, numbers):
    named = {name: value.to(DEVICE) for name, value in parameters(settings, numbers).items()}
    tokens, sound = triton_impl.sample(logits.to(DEVICE), **named)
    return tokens.cpu(), sound.cpu()


def random_logits(rows, vocab, seed=0):
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 4


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_reference_draws_what_the_engine_draws(settings):
    temperature, top_k, top_p, min_p = settings
    logits = random_logits(12, 400)
    sampling = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    draws = [Draw(seed=7, branch=0, index=i) for i in range(12)]
    want = draw_tokens(logits.clone(), [DrawTask(draw, sampling) for draw in draws])
    got, _ = reference.sample(
        logits, **parameters([settings] * 12, [uniform(draw) for draw in draws])
    )
    assert got.tolist() == want


@pytest.mark.parametrize(("vocab", "settings"), [(97, SETTINGS), (5000, SETTINGS[1:8:2])])
def test_every_setting_draws_the_token_of_the_reference(vocab, settings):
    numbers = [random.Random(i).random() for i in range(len(settings))]
    logits = random_logits(len(settings), vocab)
    got, sound = draw(logits, settings, numbers)
    want, _ = reference.sample(logits, **parameters(settings, numbers))
    assert got.tolist() == want.tolist()
    assert sound.all()


@pytest.mark.parametrize(
    "settings",
    [
        (0.7, 20, 0.8, 0.0),
        (0.7, 0, 0.95, 0.05),
        (1.0, 300, 1.0, 0.3),
        (3.0, 2048, 1.0, 0.0),
        (3.0, 2049, 0.9, 0.0),
        (50.0, 3000, 1.0, 0.0),
        (100.0, 0, 0.9, 0.0),
        (100.0, 0, 0.9, 0.5),
    ],
    ids=str,
)
def test_a_list_of_likely_tokens_changes_no_draw_whether_there_is_room_for_it_or_not(settings):
    logits = random_logits(4, 5000, seed=1)
    logits[2:] = logits[2:].round()  # many are equal
    numbers = [0.1, 0.98, 0.5, 1 - 2**-24]
    got, _ = draw(logits, [settings] * 4, numbers)
    want, _ = reference.sample(logits, **parameters([settings] * 4, numbers))
    assert got.tolist() == want.tolist()


def test_what_a_filter_can_leave_is_listed_by_id_where_it_is_little():
    logits = random_logits(2, 5000).round().to(DEVICE)
    named = parameters([(0.8, 40, 0.9, 0.0), (100.0, 0, 0.9, 0.0)], [0.4, 0.4])
    tokens = torch.empty(2, dtype=torch.int64, device=DEVICE)
    sound = torch.empty(2, dtype=torch.int8, device=DEVICE)
    launch = triton_impl.plan(
        tokens, sound, logits, **{name: value.to(DEVICE) for name, value in named.items()}
    )
    launch.args["ids_ptr"].fill_(-1)
    launch.run()
    few, none = launch.args["ids_ptr"].cpu()
    listed = few[few >= 0]
    assert 40 <= len(listed) < 400
    assert listed.tolist() == sorted(set(listed.tolist()))
    assert int(tokens[0]) in listed.tolist()
    assert logits[0].cpu()[listed].min() > logits[0].cpu().quantile(0.9)
    assert (none == -1).all()


@pytest.mark.parametrize(
    "settings", [(1.0, 7, 1.0, 0.0), (1.0, 0, 0.6, 0.0), (1.0, 9, 0.9, 0.2), (1.0, 0, 1.0, 0.3)]
)
def test_equal_logits_are_told_apart_by_their_ids(settings):
    # Few values, as logits that were bfloat16 have: of those at a filter's edge the first are kept.
    logits = (random_logits(1, 60) / 4).round().expand(6, -1).contiguous()
    logits[:, 3] = -0.0
    numbers = [(i + 0.5) / 6 for i in range(6)]
    got, _ = draw(logits, [settings] * 6, numbers)
    want, _ = reference.sample(logits, **parameters([settings] * 6, numbers))
    assert got.tolist() == want.tolist()


def test_the_ends_of_the_distribution_are_tokens_that_may_be_drawn():
    logits = (
        torch.tensor([[-float("inf"), 2.0, 1.0, 0.0, -float("inf")]]).expand(4, -1).contiguous()
    )
    settings = [(1.0, 0, 1.0, 0.0), (1.0, 0, 1.0, 0.0), (1.0, 3, 1.0, 0.0), (1.0, 4, 1.0, 0.0)]
    got, _ = draw(logits, settings, [0.0, 1 - 2**-24, 1 - 2**-24, 1 - 2**-24])
    assert got.tolist() == [1, 3, 3, 3]


def test_shares_are_those_of_the_distribution():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0, -5.0]]).expand(10, -1).contiguous()
    numbers = [(i + 0.5) / 10 for i in range(10)]
    for settings in ((1.0, 4, 1.0, 0.0), (1.0, 0, 1.0, 0.0)):
        got, _ = draw(logits, [settings] * 10, numbers)
        shares = torch.bincount(got, minlength=5) / 10
        torch.testing.assert_close(shares, logits[0].softmax(-1), atol=0.1, rtol=0)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_finite_is_told_and_spoils_no_other_row():
    logits = random_logits(4, 50)
    logits[0, 9] = float("nan")
    logits[1] = -float("inf")
    logits[2, 4] = float("inf")
    got, sound = draw(logits, [(1.0, 5, 0.9, 0.0)] * 4, [0.3] * 4)
    assert sound.tolist() == [False, False, False, True]
    want, _ = reference.sample(logits, **parameters([(1.0, 5, 0.9, 0.0)] * 4, [0.3] * 4))
    assert got[3] == want[3]
    assert ((got >= 0) & (got < 50)).all()


def test_padding_behind_a_row_is_not_read():
    wide = torch.full((3, 70), float("nan"))
    wide[:, :60] = random_logits(3, 60)
    got, sound = draw(wide[:, :60], [(1.0, 0, 0.9, 0.0)] * 3, [0.1, 0.5, 0.9])
    want, _ = draw(wide[:, :60].clone(), [(1.0, 0, 0.9, 0.0)] * 3, [0.1, 0.5, 0.9])
    assert got.tolist() == want.tolist()
    assert sound.all()
