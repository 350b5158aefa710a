"""Log probabilities are those of transformers' float32 logits, for every token that is told."""

import math

import pytest
import torch
import transformers

from localpaged.engine.logprobs import LOGPROB_FLOOR, describe
from localpaged.engine.params import BeamParams, Request, SamplingParams
from localpaged.errors import BadParameter
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_core, make_request, run
from testkit.tiny_model import save_tiny_model

PROMPT = torch.randint(3, 300, (90,), generator=torch.Generator().manual_seed(4)).tolist()


class Model:
    def __init__(self, folder):
        save_tiny_model(folder, "qwen3")
        self.decoder, _ = load_decoder(folder)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def core(self, **options):
        return make_decoder_core(self.decoder, **options)

    def logprobs(self, tokens):
        """Return log probabilities [tokens - 1, vocab] of each token but the first."""
        with torch.inference_mode():
            return self._model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)

    def assert_told(self, told, tokens, *, first, num_alternatives):
        expected = self.logprobs(tokens)[first - 1 :]
        assert [t.token_id for t in told] == tokens[first:]
        for entry, row in zip(told, expected, strict=True):
            assert entry.logprob == pytest.approx(row[entry.token_id].item(), abs=2e-4)
            best = row.topk(num_alternatives)
            likeliest = entry.alternatives[:num_alternatives]
            assert [t for t, _ in likeliest] == best.indices.tolist()
            assert [p for _, p in likeliest] == pytest.approx(best.values.tolist(), abs=2e-4)
            assert dict(entry.alternatives)[entry.token_id] == entry.logprob
            assert len(entry.alternatives) <= num_alternatives + 1


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Model(tmp_path_factory.mktemp("model") / "qwen3")


@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"temperature": 1.2, "seed": 3},
        {"temperature": 1.0, "seed": 3, "top_k": 1},
        {"temperature": 0.8, "seed": 3, "repetition_penalty": 1.5, "logit_bias": ((9, 8.0),)},
    ],
    ids=str,
)
@pytest.mark.parametrize("num_alternatives", [0, 1, 5])
def test_a_sampled_token_is_told_under_the_unmodified_distribution(
    model, sampling, num_alternatives
):
    request = make_request("a", PROMPT, max_tokens=12, logprobs=num_alternatives, **sampling)
    outcome = run(model.core(), [request])["a"]
    tokens = [*PROMPT, *outcome.token_ids]
    model.assert_told(
        outcome.logprobs, tokens, first=len(PROMPT), num_alternatives=num_alternatives
    )


def test_samples_hits_preemption_and_neighbours_are_told_the_same(model):
    sampling = {"temperature": 1.0, "seed": 3, "max_tokens": 24, "logprobs": 3, "num_samples": 3}
    core = model.core(num_blocks=30)
    others = [make_request(f"o{i}", [i + 3] * 60, max_tokens=60) for i in range(4)]
    crowded = run(core, [*others, make_request("a", PROMPT, **sampling)])["a"]
    assert core.snapshot().preemptions > 0
    hit = run(core, [make_request("a", PROMPT, **sampling)])["a"]
    assert hit.finish.usage.cached_tokens > 0
    for branch in range(3):
        for outcome in (crowded.branch(branch), hit.branch(branch)):
            tokens = [*PROMPT, *outcome.token_ids]
            model.assert_told(outcome.logprobs, tokens, first=len(PROMPT), num_alternatives=3)


def test_who_does_not_ask_is_told_nothing(model):
    outcomes = run(
        model.core(), [make_request("a", PROMPT, logprobs=2), make_request("b", PROMPT[::-1])]
    )
    assert len(outcomes["a"].logprobs) == len(outcomes["a"].token_ids)
    assert outcomes["b"].logprobs == []


@pytest.mark.parametrize("step_tokens", [16, 27, 512])
def test_every_prompt_token_is_told_even_when_it_is_cached(model, step_tokens):
    core = model.core(step_tokens=step_tokens)
    run(core, [make_request("warm", PROMPT)])
    for name in ("first", "second"):
        request = make_request(name, PROMPT, prompt_logprobs=4, max_tokens=3)
        outcome = run(core, [request])[name]
        assert outcome.finish.usage.cached_tokens == 0
        model.assert_told(outcome.prompt_logprobs, PROMPT, first=1, num_alternatives=4)
    usage = run(core, [make_request("after", PROMPT)])["after"].finish.usage
    assert usage.cached_tokens == len(PROMPT) - 1


def test_a_prompt_is_told_once_through_preemption_beside_equal_prompts(model):
    core = model.core(num_blocks=14, step_tokens=20, stream_stretch=1.5)
    requests = [
        make_request("stream", [7] * 70, max_tokens=100),
        make_request("other", [8] * 30, max_tokens=100),
        make_request("plain", PROMPT, max_tokens=30),
        make_request("told", PROMPT, prompt_logprobs=2, max_tokens=30, num_samples=2),
    ]
    outcomes = run(core, requests)
    assert core.snapshot().preemptions > 0
    model.assert_told(outcomes["told"].prompt_logprobs, PROMPT, first=1, num_alternatives=2)
    assert outcomes["told"].token_ids == outcomes["plain"].token_ids
    assert core.scheduler.kv.pool.num_held == 0


@pytest.mark.parametrize("step_tokens", [16, 27, 512])
@pytest.mark.parametrize("first", [0, 1, 2, 16, 17, 48, 63, len(PROMPT) - 1, len(PROMPT)])
def test_only_the_end_of_a_cached_prompt_is_computed_when_only_that_is_told(
    model, first, step_tokens
):
    core = model.core(step_tokens=step_tokens)
    cold = make_request("cold", PROMPT, prompt_logprobs=3, prompt_logprobs_from=first, max_tokens=1)
    outcomes = {"cold": run(core, [cold])["cold"]}
    told = make_request("told", PROMPT, prompt_logprobs=3, prompt_logprobs_from=first, max_tokens=1)
    outcomes["told"] = run(core, [told])["told"]
    start = max(1, first)
    for outcome in outcomes.values():
        model.assert_told(outcome.prompt_logprobs, PROMPT, first=start, num_alternatives=3)
        assert outcome.prompt_logprobs_from == start or not outcome.prompt_logprobs
        assert len(outcome.prompt_logprobs) == max(0, len(PROMPT) - start)
    usage = outcomes["told"].finish.usage
    # the last block of the prompt was not full, so it is not kept
    assert usage.cached_tokens == min(start - 1, len(PROMPT) // 16 * 16)
    assert outcomes["cold"].finish.usage.cached_tokens == 0


def test_scoring_an_answer_at_the_end_of_a_long_chat_costs_its_own_tokens(model):
    chance = torch.Generator().manual_seed(5)
    chat = torch.randint(3, 300, (400,), generator=chance).tolist()
    answer = run(model.core(), [make_request("chat", chat, max_tokens=60)])["chat"].token_ids
    core = model.core()
    run(core, [make_request("chat", chat, max_tokens=60)])
    request = make_request(
        "score",
        [*chat, *answer],
        prompt_logprobs=2,
        prompt_logprobs_from=len(chat),
        max_tokens=1,
    )
    outcome = run(core, [request])["score"]
    assert outcome.finish.usage.new_tokens <= len(answer) + 1
    assert [told.token_id for told in outcome.prompt_logprobs] == answer
    model.assert_told(
        outcome.prompt_logprobs, [*chat, *answer], first=len(chat), num_alternatives=2
    )
    assert core.scheduler.kv.pool.num_held == 0


def test_two_hundred_tokens_behind_four_thousand_cost_two_hundred():
    core = make_core(num_blocks=300)
    chat = [number % 251 for number in range(4_000)]
    answer = run(core, [make_request("chat", chat, max_tokens=200)])["chat"].token_ids
    request = make_request(
        "score", [*chat, *answer], prompt_logprobs=5, prompt_logprobs_from=4_000, max_tokens=1
    )
    outcome = run(core, [request])["score"]
    assert outcome.prefill[0].cached_tokens == 3_999
    assert outcome.finish.usage.new_tokens == 201


def test_the_end_of_a_prompt_is_told_once_through_preemption(model):
    core = model.core(num_blocks=14, step_tokens=20, stream_stretch=1.5)
    requests = [
        make_request("stream", [7] * 70, max_tokens=100),
        make_request("plain", PROMPT, max_tokens=30),
        make_request("told", PROMPT, prompt_logprobs=2, prompt_logprobs_from=50, max_tokens=30),
    ]
    outcomes = run(core, requests)
    assert core.snapshot().preemptions > 0
    model.assert_told(outcomes["told"].prompt_logprobs, PROMPT, first=50, num_alternatives=2)
    assert outcomes["told"].token_ids == outcomes["plain"].token_ids


def test_a_prompt_of_one_token_has_nothing_to_tell(model):
    outcome = run(model.core(), [make_request("a", [5], prompt_logprobs=1)])["a"]
    assert outcome.prompt_logprobs == []
    assert len(outcome.token_ids) == 8


def test_a_prompt_whose_numbers_are_not_finite_fails_its_request_alone(model):
    core = model.core()
    core.submit(make_request("b", PROMPT[:20]))
    whole = model.decoder.logits
    model.decoder.logits = lambda hidden: whole(hidden) / (0.0 if len(hidden) > 2 else 1.0)
    try:
        outcomes = run(core, [make_request("a", PROMPT, prompt_logprobs=1)])
    finally:
        model.decoder.logits = whole
    assert "not finite" in outcomes["a"].fail.error.message
    assert len(outcomes["b"].token_ids) == 8


def test_impossible_tokens_have_a_finite_floor():
    logprobs = torch.tensor([[1.0, -math.inf, 1.0]]).log_softmax(-1)
    (told,) = describe(logprobs, [1], 3)
    assert told.logprob == LOGPROB_FLOOR
    assert all(math.isfinite(number) for _, number in told.alternatives)
    assert [token for token, _ in told.alternatives] == [0, 2, 1]


@pytest.mark.parametrize("count", [-1, 21, 1.5, True])
def test_an_impossible_number_of_alternatives_is_refused(count):
    with pytest.raises(BadParameter, match="logprobs"):
        SamplingParams(logprobs=count)
    with pytest.raises(BadParameter, match="prompt_logprobs"):
        Request("a", (1,), prompt_logprobs=count)


@pytest.mark.parametrize("first", [-1, 1.5, True])
def test_a_beginning_that_is_no_place_is_refused(first):
    with pytest.raises(BadParameter, match="prompt_logprobs_from"):
        Request("a", (1,), prompt_logprobs=1, prompt_logprobs_from=first)


def test_logprobs_of_beams_are_refused():
    with pytest.raises(BadParameter, match="logprobs of a beam"):
        Request("a", (1,), SamplingParams(logprobs=1), beam=BeamParams(2))
