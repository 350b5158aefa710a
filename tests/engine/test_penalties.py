"""What changes logits before a draw: equal to transformers' processors or the plain definition."""

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import BeamParams, DryParams, SamplingParams
from localpaged.engine.penalties import Adjusted, adjust, dry_penalties
from localpaged.errors import BadParameter
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_core, make_request, run
from testkit.fake_runner import FakeRunner, text_of
from testkit.tiny_model import save_tiny_model

VOCAB = 40
PROMPT = [5, 9, 5, 33, 12, 9, 21]
LOOKING_BACK = {
    "repetition_penalty": 1.4,
    "presence_penalty": 0.7,
    "frequency_penalty": 0.3,
    "dry": DryParams(1.5, allowed_length=1, breaker_ids=(7,)),
    "logit_bias": ((4, 2.5), (8, -3.0)),
    "min_tokens": 10,
    "stop_token_ids": (11, 30, 31, 32, 33, 34),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = save_tiny_model(tmp_path_factory.mktemp("model") / "llama", "llama")
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    reference.generation_config.eos_token_id = None
    return load_decoder(folder)[0], reference


def random_logits(rows, seed=0):
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def adjusted(logits, *rows):
    changed = logits.clone()
    adjust(changed, rows)
    return changed


@pytest.mark.parametrize("penalty", [0.5, 1.0, 1.3, 5.0])
def test_repetition_penalty_is_that_of_transformers(penalty):
    logits = random_logits(3)
    histories = [(1, 2, 2, 3), (39,), (7, 7, 0, 12, 1, 5)]
    params = SamplingParams(repetition_penalty=penalty)
    rows = [Adjusted(i, params, history, 1) for i, history in enumerate(histories)]
    oracle = transformers.RepetitionPenaltyLogitsProcessor(penalty)
    expected = [oracle(torch.tensor([h]), logits[i : i + 1]) for i, h in enumerate(histories)]
    torch.testing.assert_close(adjusted(logits, *rows), torch.cat(expected), rtol=0, atol=0)


def test_logit_bias_is_transformers_sequence_bias():
    logits = random_logits(2)
    bias = ((3, 5.0), (39, -100.0), (0, 0.5))
    oracle = transformers.SequenceBiasLogitsProcessor({(t,): b for t, b in bias})
    expected = oracle(torch.tensor([[1, 2]]), logits[1:])
    changed = adjusted(logits, Adjusted(1, SamplingParams(logit_bias=bias)))
    torch.testing.assert_close(changed[1:], expected, rtol=0, atol=0)
    assert torch.equal(changed[0], logits[0])


def test_presence_and_frequency_count_the_answer_alone():
    logits = random_logits(1)
    params = SamplingParams(presence_penalty=0.5, frequency_penalty=0.25)
    changed = adjusted(logits, Adjusted(0, params, (*PROMPT, 3, 4, 3, 3), len(PROMPT)))
    expected = logits.clone()
    expected[0, 3] -= 0.5 + 3 * 0.25
    expected[0, 4] -= 0.5 + 0.25
    torch.testing.assert_close(changed, expected)


def plain_dry(history, dry):
    """The definition: for each token, the longest suffix that it followed before."""
    penalties = {}
    for token in set(history) - set(dry.breaker_ids):
        longest = 0
        for place in range(1, len(history)):
            for n in range(1, place + 1):
                suffix = history[len(history) - n :]
                is_match = history[place] == token and history[place - n : place] == suffix
                if is_match and not set(suffix) & set(dry.breaker_ids):
                    longest = max(longest, n)
        if longest >= dry.allowed_length:
            penalties[token] = dry.multiplier * dry.base ** (longest - dry.allowed_length)
    return penalties


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=25),
    st.integers(1, 4),
    st.sets(st.integers(0, 3), max_size=2),
)
def test_dry_is_its_plain_definition(history, allowed_length, breakers):
    dry = DryParams(0.8, base=1.5, allowed_length=allowed_length, breaker_ids=tuple(breakers))
    assert dry_penalties(history, dry) == pytest.approx(plain_dry(history, dry))


def test_endless_repetition_stays_finite():
    logits = adjusted(
        random_logits(1),
        Adjusted(0, SamplingParams(dry=DryParams(100.0, base=10.0)), (3,) * 4_000, 1),
    )
    assert logits.isfinite().all()


def test_rows_that_ask_for_nothing_are_left_alone():
    logits = random_logits(3)
    busy = Adjusted(1, SamplingParams(**LOOKING_BACK), (1, 2, 1), 1, (5,))
    idle = [Adjusted(i, SamplingParams(), (1, 2, 1), 1) for i in (0, 2)]
    changed = adjusted(logits, idle[0], busy, idle[1])
    assert torch.equal(changed[[0, 2]], logits[[0, 2]])
    assert not torch.equal(changed[1], logits[1])


def test_greedy_answers_with_a_repetition_penalty_equal_transformers(model):
    decoder, reference = model
    with torch.inference_mode():
        output = reference.generate(
            torch.tensor([PROMPT]), max_new_tokens=40, do_sample=False, repetition_penalty=1.6
        )
    request = make_request("a", PROMPT, max_tokens=40, repetition_penalty=1.6)
    plain = run(make_decoder_core(decoder), [make_request("a", PROMPT, max_tokens=40)])["a"]
    penalised = run(make_decoder_core(decoder), [request])["a"]
    assert penalised.token_ids == output[0, len(PROMPT) :].tolist()
    assert penalised.token_ids != plain.token_ids


def test_min_tokens_equal_transformers(model):
    decoder, reference = model
    free = run(make_decoder_core(decoder), [make_request("a", PROMPT, max_tokens=40)])["a"]
    ends = free.token_ids[2:8]
    with torch.inference_mode():
        output = reference.generate(
            torch.tensor([PROMPT]),
            max_new_tokens=40,
            min_new_tokens=12,
            do_sample=False,
            eos_token_id=ends,
        )
    core = make_decoder_core(decoder, eos_ids=frozenset(ends))
    request = make_request("a", PROMPT, max_tokens=40, min_tokens=12, ignore_eos=False)
    outcome = run(core, [request])["a"]
    assert outcome.token_ids == output[0, len(PROMPT) :].tolist()
    assert not set(outcome.token_ids[:12]) & set(ends)


def test_beams_with_a_repetition_penalty_equal_transformers(model):
    decoder, reference = model
    with torch.inference_mode():
        output = reference.generate(
            torch.tensor([PROMPT]),
            num_beams=3,
            max_new_tokens=12,
            do_sample=False,
            repetition_penalty=1.4,
            early_stopping=True,
        )
    request = make_request(
        "a", PROMPT, beam=BeamParams(3, early_stopping=True), max_tokens=12, repetition_penalty=1.4
    )
    outcome = run(make_decoder_core(decoder), [request])["a"]
    assert outcome.token_ids == output[0, len(PROMPT) :].tolist()


def test_adjusted_draws_do_not_depend_on_neighbours_preemption_or_hits(model):
    decoder, _ = model
    params = {**LOOKING_BACK, "temperature": 0.9, "seed": 5, "max_tokens": 40, "num_samples": 2}
    mine = make_request("mine", PROMPT * 5, **params)
    alone = run(make_decoder_core(decoder), [mine])["mine"]
    assert len(alone.token_ids) >= 10
    others = [
        make_request(f"other {i}", [i + 3] * 60, temperature=0.8, seed=i, max_tokens=60)
        for i in range(4)
    ]
    crowded = make_decoder_core(decoder, num_blocks=24)
    outcome = run(crowded, [*others, mine])["mine"]
    assert crowded.snapshot().preemptions > 0
    again = run(crowded, [mine])["mine"]
    for branch in range(2):
        assert outcome.branch(branch).token_ids == alone.branch(branch).token_ids
        assert again.branch(branch).token_ids == alone.branch(branch).token_ids


def test_a_plan_carries_history_only_for_who_looks_back():
    runner = FakeRunner(64)
    requests = [
        make_request("plain", PROMPT, max_tokens=3),
        make_request("back", PROMPT[::-1], max_tokens=3, frequency_penalty=1.0),
    ]
    outcomes = run(make_core(runner=runner), requests)
    rows = [row for plan in runner.plans for row in plan.rows if row.draws]
    assert all(row.history == () for row in rows if row.request_id == "plain")
    seen = [row.history for row in rows if row.request_id == "back"]
    answer = outcomes["back"].token_ids
    assert seen == [(*PROMPT[::-1], *answer[:n]) for n in range(3)]


def test_stop_token_ids_end_an_answer_and_ignore_eos_leaves_them_alone():
    core = make_core(eos_ids=frozenset({1}))
    free = run(core, [make_request("free", PROMPT, max_tokens=9)])["free"].token_ids
    stopping = make_request("stop", PROMPT, max_tokens=9, stop_token_ids=(free[4],))
    outcome = run(core, [stopping])["stop"]
    assert outcome.token_ids == free[:5]
    assert outcome.text == text_of(bytes(free[:4]))
    assert outcome.finish.reason is FinishReason.STOP


def test_ends_that_are_ignored_are_not_barred(model):
    decoder, _ = model
    free = run(make_decoder_core(decoder), [make_request("a", PROMPT, max_tokens=20)])["a"]
    core = make_decoder_core(decoder, eos_ids=frozenset(free.token_ids[:5]))
    request = make_request("a", PROMPT, max_tokens=20, min_tokens=15)
    assert run(core, [request])["a"].token_ids == free.token_ids


def test_a_row_whose_adjustment_breaks_fails_alone(model, monkeypatch):
    decoder, _ = model
    plain = run(make_decoder_core(decoder), [make_request("b", PROMPT)])["b"].token_ids

    def broken(history, dry):
        raise ZeroDivisionError("no such repetition")

    monkeypatch.setattr("localpaged.engine.penalties.dry_penalties", broken)
    requests = [make_request("a", PROMPT, dry=DryParams(1.0)), make_request("b", PROMPT)]
    outcomes = run(make_decoder_core(decoder), requests)
    assert "no such repetition" in outcomes["a"].fail.error.message
    assert outcomes["b"].token_ids == plain


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("repetition_penalty", 0.0),
        ("repetition_penalty", float("inf")),
        ("presence_penalty", 2.5),
        ("frequency_penalty", float("nan")),
        ("logit_bias", ((1, 101.0),)),
        ("logit_bias", ((-1, 1.0),)),
        ("logit_bias", ((1, 1.0), (1, 2.0))),
        ("min_tokens", -1),
        ("stop_token_ids", (1.5,)),
        ("stop_token_ids", tuple(range(2_000))),
    ],
)
def test_a_value_out_of_range_is_named(name, value):
    with pytest.raises(BadParameter, match=name):
        SamplingParams(**{name: value})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("multiplier", {"multiplier": -1}),
        ("base", {"multiplier": 1, "base": 0.5}),
        ("allowed_length", {"multiplier": 1, "allowed_length": 0}),
        ("breaker_ids", {"multiplier": 1, "breaker_ids": (-3,)}),
    ],
)
def test_a_dry_value_out_of_range_is_named(name, values):
    with pytest.raises(BadParameter, match=name):
        DryParams(**values)


def test_min_tokens_beyond_max_tokens_are_refused():
    with pytest.raises(BadParameter, match="min_tokens 9 is more than max_tokens 8"):
        SamplingParams(min_tokens=9, max_tokens=8)


@pytest.mark.parametrize("params", [{"logit_bias": ((999, 1.0),)}, {"stop_token_ids": (999,)}])
def test_ids_that_the_model_does_not_know_are_refused_at_submit(params):
    (name,) = params
    outcome = run(make_core(), [make_request("a", PROMPT, **params)])["a"]
    assert isinstance(outcome.fail.error, BadParameter)
    assert name in outcome.fail.error.message
