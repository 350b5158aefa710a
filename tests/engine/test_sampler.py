"""Sampling: filters agree with transformers' warpers, seeds with nothing but themselves."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
import transformers

from localpaged.engine.drawing import FIRST_CANDIDATES, uniform
from localpaged.engine.params import SamplingParams
from localpaged.engine.sampler import sample
from localpaged.engine.step_plan import Draw, PlannedRow


def row(*, seed=0, index=0, num_draws=1, **sampling):
    params = SamplingParams(**{"top_p": 1.0, **sampling})
    draws = tuple(Draw(branch, seed, index) for branch in range(num_draws))
    return PlannedRow(1, "r", (1,), 0, (2,), params, draws)


NO_PADDING = torch.tensor([], dtype=torch.int64)


def draw(logits, rows, padding_ids=NO_PADDING):
    return [r.token_ids[0] for r in sample(logits.clone(), rows, padding_ids=padding_ids)]


def warped(logits, **params):
    warpers = [transformers.TemperatureLogitsWarper(params["temperature"])]
    if params.get("top_k"):
        warpers.append(transformers.TopKLogitsWarper(params["top_k"]))
    if params.get("top_p", 1.0) < 1:
        warpers.append(transformers.TopPLogitsWarper(params["top_p"]))
    if params.get("min_p"):
        warpers.append(transformers.MinPLogitsWarper(params["min_p"]))
    scores = logits[None].clone()
    for warper in warpers:
        scores = warper(None, scores)
    return scores[0].softmax(-1)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 1.0},
        {"temperature": 0.6, "top_k": 5},
        {"temperature": 1.3, "top_p": 0.8},
        {"temperature": 1.0, "min_p": 0.1},
        {"temperature": 0.9, "top_k": 40, "top_p": 0.7, "min_p": 0.05},
    ],
    ids=str,
)
def test_draws_follow_the_distribution_of_transformers_warpers(params):
    logits = torch.randn(60, generator=torch.Generator().manual_seed(3)) * 2
    expected = warped(logits, **params)
    rows = [row(seed=7, index=i, **params) for i in range(4_000)]
    counts = Counter(draw(logits.expand(4_000, -1), rows))
    assert set(counts) <= {int(i) for i in expected.nonzero()}
    for token, probability in enumerate(expected.tolist()):
        assert abs(counts[token] / 4_000 - probability) < 0.03


@pytest.mark.parametrize("scale", [0.01, 4.0], ids=["flat", "peaked"])
def test_a_nucleus_is_exact_in_a_large_vocabulary(scale):
    logits = torch.randn(4 * FIRST_CANDIDATES, generator=torch.Generator().manual_seed(5)) * scale
    allowed = {int(i) for i in warped(logits, temperature=1.0, top_p=0.5).nonzero()}
    rows = [row(seed=1, index=i, temperature=1.0, top_p=0.5) for i in range(600)]
    assert set(draw(logits.expand(600, -1), rows)) <= allowed


def test_temperature_zero_takes_the_best():
    logits = torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 1.0]])
    assert draw(logits, [row(temperature=0.0)] * 2) == [1, 0]


def test_a_seed_draws_the_same_whatever_else_is_in_the_batch():
    logits = torch.randn(3, 100, generator=torch.Generator().manual_seed(1))
    mine = row(seed=42, index=5, temperature=1.0)
    alone = draw(logits[:1], [mine])
    others = [row(seed=s, temperature=2.0) for s in (1, 2)]
    assert draw(logits, [mine, *others])[0] == alone[0]
    assert draw(logits.flip(0), [*others, mine])[2] == alone[0]


def test_uniform_numbers_are_spread_and_depend_on_seed_and_index():
    numbers = [uniform(Draw(0, seed, index)) for seed in range(50) for index in range(50)]
    assert len(set(numbers)) == 2_500
    assert 0 <= min(numbers) < 0.01
    assert 0.99 < max(numbers) < 1
    assert abs(sum(numbers) / 2_500 - 0.5) < 0.02


def test_padding_of_the_vocabulary_is_never_chosen():
    logits = torch.zeros(2, 10)
    logits[:, [4, 9]] = 100.0
    rows = [row(temperature=0.0), row(temperature=1.0)]
    assert not {4, 9} & set(draw(logits, rows, padding_ids=torch.tensor([4, 9])))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_fails_alone(bad):
    logits = torch.zeros(2, 10)
    logits[0, 3] = bad
    logits[1, 4] = 1.0
    results = sample(logits, [row(temperature=0.0)] * 2, padding_ids=NO_PADDING)
    assert results[0].token_ids == ()
    assert "finite" in (results[0].error or "")
    assert results[1].token_ids == (4,)


def test_extreme_temperatures_stay_in_the_vocabulary():
    logits = torch.randn(1, 50) * 50
    for temperature in (1e-5, 100.0):
        assert 0 <= draw(logits, [row(temperature=temperature)])[0] < 50


@pytest.mark.parametrize(
    "tiny",
    [
        {"temperature": 1e-45},
        {"temperature": 5e-324, "top_p": 0.9},
        {"temperature": 1e-300, "top_k": 3, "min_p": 1.0},
        {"temperature": 1.0, "top_p": 5e-324},
        {"temperature": 1e-300, "top_p": 1e-300, "repetition_penalty": 1e-300},
        {"temperature": 0.0, "repetition_penalty": 5e-324},
    ],
    ids=str,
)
def test_values_that_float32_has_no_number_for_take_the_likeliest_token(tiny):
    logits = torch.linspace(-300.0, 300.0, 2 * FIRST_CANDIDATES)[None]
    tiny_row = replace(row(**tiny), history=(5, 2 * FIRST_CANDIDATES - 1))
    assert draw(logits, [tiny_row]) == [2 * FIRST_CANDIDATES - 1]


def test_branches_of_one_seed_draw_differently_and_repeatably():
    logits = torch.zeros(1, 1_000)
    mine = row(seed=3, temperature=1.0, num_draws=6)
    (result,) = sample(logits.clone(), [mine], padding_ids=NO_PADDING)
    assert len(set(result.token_ids)) == 6
    assert sample(logits.clone(), [mine], padding_ids=NO_PADDING) == [result]
    assert draw(logits, [row(seed=3, temperature=1.0)]) == [result.token_ids[0]]


def test_candidates_are_the_likeliest_tokens_with_their_log_probabilities():
    logits = torch.randn(2, 50, generator=torch.Generator().manual_seed(8))
    beam = PlannedRow(1, "r", (1,), 0, (2,), SamplingParams(), (), num_candidates=4)
    first, second = sample(logits.clone(), [beam, row(temperature=0.0)], padding_ids=NO_PADDING)
    expected = logits[0].log_softmax(-1).topk(4)
    assert [c.token_id for c in first.candidates] == expected.indices.tolist()
    assert [c.logprob for c in first.candidates] == pytest.approx(expected.values.tolist())
    assert second.token_ids == (int(logits[1].argmax()),)
