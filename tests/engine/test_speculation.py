"""Guessed tokens save steps and change nothing."""

from itertools import pairwise

import pytest
import torch
import transformers

from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import BeamParams, DryParams, Grammar
from localpaged.engine.speculate import (
    FIRST_PRICE,
    LONGEST_PAUSE,
    REMEASURE_STEPS,
    DraftCosts,
    Drafter,
)
from localpaged.engine.step_plan import RowResult
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import Outcome, collect, make_core, make_request, run
from testkit.fake_runner import FakeRunner, next_token
from testkit.tiny_model import FAMILIES, save_tiny_model

VERSE = [int(i) for i in torch.randint(3, 300, (24,), generator=torch.Generator().manual_seed(3))]
COPYING = {
    "verse": [*VERSE, *VERSE, *VERSE[:9]],
    "loop": [17, 23] * 20,
    "short": [5, 6],
    "plain": [int(i) for i in torch.randperm(290)[:70] + 3],
}


class FreeDrafts(DraftCosts):
    """Drafts that cost nothing: as many as allowed, at every step."""

    def price(self, num_decodes):
        return 0.0


def drafting(core, costs=None):
    core.scheduler.draft_costs = costs or FreeDrafts()
    return core


def song(history):
    """Return a next token that repeats a verse with a slip now and then."""
    return next_token(history) if next_token(history) % 7 == 0 else 100 + len(history) % 11


def sing(_, history):
    return RowResult((song(history),))


def expected_song(prompt, num_tokens):
    history = list(prompt)
    for _ in range(num_tokens):
        history.append(song(history))
    return history[len(prompt) :]


def singing_core(*, max_drafts=6, costs=None, **options):
    runner = FakeRunner(options.get("num_blocks", 64), sample=sing)
    return drafting(make_core(runner=runner, max_drafts=max_drafts, **options), costs), runner


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_tiny_model(tmp_path_factory.mktemp("model") / "llama", "llama")
    return load_decoder(folder)[0]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    folder = save_tiny_model(tmp_path_factory.mktemp("model") / request.param, request.param)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    expected = {}
    with torch.inference_mode():
        for name, prompt in COPYING.items():
            output = model.generate(torch.tensor([prompt]), max_new_tokens=48, do_sample=False)
            expected[name] = output[0, len(prompt) :].tolist()
    return load_decoder(folder)[0], expected


@pytest.mark.parametrize(
    "options",
    [{}, {"num_blocks": 15}, {"step_tokens": 20, "stream_stretch": 1.5}],
    ids=["roomy", "preempted", "chunked"],
)
def test_greedy_answers_equal_transformers(family, options):
    decoder, expected = family
    core = drafting(make_decoder_core(decoder, max_drafts=5, **options))
    requests = [make_request(n, p, max_tokens=48) for n, p in COPYING.items()]
    outcomes = run(core, requests)
    assert {name: outcomes[name].token_ids for name in COPYING} == expected
    assert core.scheduler.num_drafted > 0
    if "num_blocks" in options:
        assert core.snapshot().preemptions > 0


@pytest.mark.parametrize("num_blocks", [256, 15], ids=["roomy", "preempted"])
def test_guesses_that_are_partly_right_equal_transformers(family, num_blocks, monkeypatch):
    decoder, expected = family

    class Prophet(Drafter):
        """Knows what comes, and lies about every fourth token."""

        def propose(self, tokens, *, limit, price):
            for name, prompt in COPYING.items():
                known = [*prompt, *expected[name]]
                if tokens == known[: len(tokens)]:
                    coming = range(len(tokens), min(len(tokens) + limit, len(known)))
                    return tuple(known[i] if i % 4 else (known[i] + 1) % 300 for i in coming)
            return ()

        def learn(self, *, num_drafts, num_right):
            assert 0 <= num_right <= num_drafts

    monkeypatch.setattr("localpaged.engine.sequence.Drafter", Prophet)
    core = drafting(make_decoder_core(decoder, max_drafts=5, num_blocks=num_blocks))
    for prefix in ("cold ", "cached "):
        requests = [make_request(prefix + n, p, max_tokens=48) for n, p in COPYING.items()]
        outcomes = run(core, requests)
        assert {name: outcomes[prefix + name].token_ids for name in COPYING} == expected
    assert core.scheduler.num_drafts_right > 30
    assert core.scheduler.num_drafted > core.scheduler.num_drafts_right
    assert (core.snapshot().preemptions > 0) == (num_blocks == 15)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 0.7, "seed": 3},
        {"temperature": 0.7, "seed": 3, "num_samples": 3},
        {"repetition_penalty": 1.05, "frequency_penalty": 0.05, "dry": DryParams(0.1)},
        {"temperature": 0.5, "seed": 1, "min_tokens": 20, "stop_token_ids": tuple(range(3, 90))},
    ],
    ids=str,
)
def test_every_kind_of_sampling_draws_the_same_tokens(llama, params):
    request = make_request(
        "a", COPYING["loop"], max_tokens=60, logit_bias=((17, 30.0), (23, 30.0)), **params
    )
    plain = run(make_decoder_core(llama), [request])["a"]
    core = drafting(make_decoder_core(llama, max_drafts=4))
    guessed = run(core, [request])["a"]
    for branch in range(request.num_samples):
        assert guessed.branch(branch).token_ids == plain.branch(branch).token_ids
        assert guessed.branch(branch).finish.reason is plain.branch(branch).finish.reason
    assert core.scheduler.num_drafted > 0


def test_log_probabilities_are_told_of_each_token(llama):
    request = make_request("a", COPYING["verse"], max_tokens=40, logprobs=2)
    plain = run(make_decoder_core(llama), [request])["a"]
    core = drafting(make_decoder_core(llama, max_drafts=4))
    guessed = run(core, [request])["a"]
    assert core.scheduler.num_drafted > 0
    assert [told.token_id for told in guessed.logprobs] == guessed.token_ids
    for told, known in zip(guessed.logprobs, plain.logprobs, strict=True):
        assert told.logprob == pytest.approx(known.logprob, abs=1e-4)


def test_right_guesses_save_steps():
    core, runner = singing_core()
    outcome = run(core, [make_request("a", range(30), max_tokens=200)])["a"]
    assert outcome.token_ids == expected_song(range(30), 200)
    assert len(runner.plans) < 100
    assert core.scheduler.num_drafts_right > 100
    assert outcome.finish.usage.completion_tokens == 200


@pytest.mark.parametrize("num_blocks", [64, 22], ids=["roomy", "tight"])
def test_crowds_and_hits_read_their_own_history(num_blocks):
    core, _ = singing_core(num_blocks=num_blocks, context_length=300)
    prompts = {f"r{i}": [i] * 25 for i in range(6)}
    for _ in range(2):
        outcomes = run(core, [make_request(n, p, max_tokens=120) for n, p in prompts.items()])
        for name, prompt in prompts.items():
            assert outcomes[name].token_ids == expected_song(prompt, 120)
    assert (core.snapshot().preemptions > 0) == (num_blocks == 22)
    assert core.scheduler.num_drafts_right > 0
    assert core.scheduler.kv.pool.num_held == 0


def test_only_what_was_drawn_is_cached():
    core, _ = singing_core()
    prompt = list(range(20))
    answer = run(core, [make_request("a", prompt, max_tokens=100)])["a"].token_ids
    tree = core.scheduler.kv.tree
    known = [*prompt, *answer]
    for keys, _ in tree.paths():
        path = [token for key in keys for token in key]
        assert path == known[: len(path)]


@pytest.mark.parametrize("max_tokens", range(1, 12))
def test_an_answer_never_has_more_than_max_tokens(max_tokens):
    core, _ = singing_core(max_drafts=8)
    prompt = expected_song([1], 60)
    outcome = run(core, [make_request("a", prompt, max_tokens=max_tokens)])["a"]
    assert outcome.token_ids == expected_song(prompt, max_tokens)
    assert outcome.finish.reason is FinishReason.LENGTH


def test_no_guess_reaches_over_the_context():
    core, runner = singing_core(context_length=96)
    prompt = expected_song([1], 60)
    outcome = run(core, [make_request("a", prompt, max_tokens=None)])["a"]
    assert outcome.token_ids == expected_song(prompt, 36)
    assert max(row.end for plan in runner.plans for row in plan.rows) < 96


def test_an_end_inside_of_guesses_cuts_the_answer():
    prompt = expected_song([1], 60)
    answer = expected_song(prompt, 40)
    place = next(i for i, token in enumerate(answer) if i > 12 and token not in answer[:i])
    core, _ = singing_core(eos_ids=frozenset({answer[place]}))
    outcome = run(core, [make_request("a", prompt, max_tokens=40, ignore_eos=False)])["a"]
    assert outcome.token_ids == answer[: place + 1]
    assert outcome.finish.reason is FinishReason.STOP


def test_a_stop_string_inside_of_guesses_cuts_the_text():
    letters = [bytes([97 + i % 26]) for i in range(256)]
    prompt = expected_song([1], 60)
    text = b"".join(letters[token] for token in expected_song(prompt, 60)).decode()
    stop = text[25:28]
    core, _ = singing_core(token_bytes=letters)
    outcome = run(core, [make_request("a", prompt, max_tokens=60, stop=(stop,))])["a"]
    assert outcome.text == text[: text.index(stop)]
    assert outcome.finish.reason is FinishReason.STOP
    assert core.scheduler.kv.pool.num_held == 0


def test_cancel_between_guesses_gives_everything_back():
    core, _ = singing_core()
    outcomes: dict[str, Outcome] = {}
    collect(outcomes, core.submit(make_request("a", expected_song([1], 60), max_tokens=100)))
    for _ in range(5):
        collect(outcomes, core.step())
    collect(outcomes, core.cancel("a"))
    core.check()
    assert core.scheduler.kv.pool.num_held == 0


def test_who_does_not_want_guesses_gets_none(llama):
    prompt = COPYING["loop"]
    requests = [
        make_request("no", prompt, speculation=False),
        make_request("beams", prompt, beam=BeamParams(2)),
        make_request("grammar", prompt, grammar=Grammar("regex", "x{8}")),
    ]
    for request in requests:
        core = drafting(make_decoder_core(llama, max_drafts=4))
        run(core, [request])
        assert core.scheduler.num_drafted == 0
    core = make_core()
    run(core, [make_request("a", prompt)])
    assert core.scheduler.num_drafted == 0


def test_nobody_guesses_while_a_prompt_is_read_or_waits():
    core, runner = singing_core(step_tokens=32, max_running=2)
    requests = [make_request(f"r{i}", expected_song([i], 70), max_tokens=30) for i in range(4)]
    outcomes = run(core, requests)
    for request in requests:
        assert outcomes[request.id].token_ids == expected_song(request.prompt_ids, 30)
    for plan in runner.plans:
        if any(row.num_drafts for row in plan.rows):
            assert all(len(row.token_ids) - row.num_drafts == 1 for row in plan.rows)


def test_the_longest_and_latest_repetition_is_followed():
    tokens = [1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3]
    assert Drafter().propose(tokens, limit=2, price=0.0) == (4, 9)
    assert Drafter().propose([1, 7, 2, 7, 3, 7], limit=2, price=0.0) == (3, 7)
    assert Drafter().propose([1, 2, 3], limit=2, price=0.0) == ()
    assert Drafter().propose([1], limit=2, price=0.0) == ()


def test_a_repetition_that_reaches_the_end_goes_on():
    assert Drafter().propose([5, 6, 5, 6], limit=5, price=0.0) == (5, 6, 5, 6, 5)


def test_growing_tokens_give_the_same_guesses_as_all_at_once():
    tokens = expected_song([1], 120)
    growing = Drafter()
    for end in range(1, len(tokens)):
        guess = growing.propose(tokens[:end], limit=4, price=0.0)
        assert guess == Drafter().propose(tokens[:end], limit=4, price=0.0)


def test_guesses_that_are_wrong_stop_and_are_tried_again_ever_more_rarely():
    drafter = Drafter()
    tried = []
    for step in range(4 * LONGEST_PAUSE):
        drafts = drafter.propose([1, 2, 1], limit=4, price=0.3)
        if drafts:
            tried.append(step)
            drafter.learn(num_drafts=len(drafts), num_right=0)
    gaps = [after - before for before, after in pairwise(tried)]
    assert len(tried) < 20
    assert gaps == sorted(gaps)
    assert gaps[-1] == LONGEST_PAUSE


def test_guesses_come_back_when_they_are_right_again():
    drafter = Drafter()
    for _ in range(50):
        if drafts := drafter.propose([1, 2, 1], limit=4, price=0.3):
            drafter.learn(num_drafts=len(drafts), num_right=0)
    assert drafter.propose([1, 2, 1], limit=4, price=0.3) == ()
    for _ in range(2 * LONGEST_PAUSE):
        if drafts := drafter.propose([1, 2, 1], limit=4, price=0.3):
            drafter.learn(num_drafts=len(drafts), num_right=len(drafts))
    assert len(drafter.propose([1, 2, 1], limit=4, price=0.3)) == 4


def test_a_guess_costs_what_it_was_measured_to_cost():
    costs = DraftCosts()
    assert costs.price(2) is None
    costs.learn(num_decodes=2, num_drafts=0, seconds=1.0)
    assert costs.price(2) == FIRST_PRICE
    costs.learn(num_decodes=2, num_drafts=4, seconds=2.0)
    assert costs.price(2) == pytest.approx(0.25 * 2)
    assert costs.price(3) is None
    for _ in range(REMEASURE_STEPS):
        costs.learn(num_decodes=2, num_drafts=4, seconds=2.0)
    assert costs.price(2) is None
    costs.learn(num_decodes=2, num_drafts=0, seconds=1.0)
    assert costs.price(2) == pytest.approx(0.25 * 2)


def test_one_slow_step_does_not_make_guesses_dear():
    costs = DraftCosts()
    costs.learn(num_decodes=1, num_drafts=0, seconds=1.0)
    costs.learn(num_decodes=1, num_drafts=4, seconds=1.4)
    costs.learn(num_decodes=1, num_drafts=4, seconds=500.0)
    assert costs.price(1) < 0.15
    costs.learn(num_decodes=1, num_drafts=4, seconds=0.5)
    assert costs.price(1) > 0


def test_dear_guesses_are_not_made():
    class Dear(DraftCosts):
        def price(self, num_decodes):
            return 1.0

    core, _ = singing_core(costs=Dear())
    outcome = run(core, [make_request("a", expected_song([1], 60), max_tokens=60)])["a"]
    assert outcome.token_ids == expected_song(expected_song([1], 60), 60)
    assert core.scheduler.num_drafted < 15
