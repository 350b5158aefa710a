"""float32 greedy tokens equal transformers' `generate`, through every path of the engine."""

import pytest
import torch
import transformers

from localpaged.engine.params import BeamParams
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_request, run
from testkit.tiny_model import FAMILIES, MORE_FAMILIES, save_tiny_model

NUM_TOKENS = 64
EOS_IDS = [7, 11, 19]
PAD_ID = 1
LENGTHS = (5, 16, 17, 33, 60, 75, 100, 130)


def random_prompts():
    """Eight prompts; the fourth shares a block and a bit with the third."""
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(3, 300, (n,), generator=generator).tolist() for n in LENGTHS]
    prompts[3] = [*prompts[2], *prompts[3][:16]]
    return {f"prompt {i}": prompt for i, prompt in enumerate(prompts)}


def generate(model, prompt, num_tokens):
    """Return what transformers answers to one prompt, never stopping early."""
    with torch.inference_mode():
        output = model.generate(
            torch.tensor([prompt]),
            max_new_tokens=num_tokens,
            min_new_tokens=num_tokens,
            do_sample=False,
        )
    return output[0, len(prompt) :].tolist()


class Case:
    """A family's decoder, prompts, and what transformers answers to each."""

    def __init__(self, folder, family):
        save_tiny_model(folder, family)
        self.decoder, _ = load_decoder(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        model.generation_config.eos_token_id = None
        self.prompts = random_prompts()
        self.expected = {n: generate(model, p, NUM_TOKENS) for n, p in self.prompts.items()}

    def core(self, **options):
        return make_decoder_core(self.decoder, **options)

    def requests(self, prefix=""):
        return [
            make_request(prefix + name, prompt, max_tokens=NUM_TOKENS)
            for name, prompt in self.prompts.items()
        ]

    def assert_equal(self, outcomes, prefix=""):
        for name, expected in self.expected.items():
            assert outcomes[prefix + name].token_ids == expected, name


@pytest.fixture(scope="module", params=FAMILIES)
def case(request, tmp_path_factory):
    return Case(tmp_path_factory.mktemp("model") / request.param, request.param)


def test_alone_and_cold(case):
    outcomes = {}
    for request in case.requests():
        outcomes |= run(case.core(), [request])
    case.assert_equal(outcomes)


def test_in_a_mixed_batch(case):
    case.assert_equal(run(case.core(), case.requests()))


def test_with_full_and_partial_hits(case):
    core = case.core()
    run(core, case.requests())
    outcomes = run(core, case.requests("again "))
    case.assert_equal(outcomes, "again ")
    cached = [outcomes[f"again prompt {i}"].finish.usage.cached_tokens for i in range(8)]
    assert cached == [length - 1 for length in map(len, case.prompts.values())]
    assert core.snapshot().block_copies == 6


@pytest.mark.parametrize("step_tokens", [9, 16, 50])
def test_with_chunked_prefill(case, step_tokens):
    core = case.core(step_tokens=step_tokens, stream_stretch=1.5)
    case.assert_equal(run(core, case.requests()))


@pytest.mark.parametrize("host_use", ["never", "always"], ids=["recomputed", "swapped"])
def test_with_preemption_and_eviction(case, host_use):
    core = case.core(num_blocks=40, step_tokens=64, host_blocks=64, host_use=host_use)
    case.assert_equal(run(core, case.requests()))
    case.assert_equal(run(core, case.requests("again ")), "again ")
    assert core.snapshot().preemptions > 0
    assert core.snapshot().evicted_blocks > 0
    assert (core.snapshot().swapped_in_blocks > 0) == (host_use == "always")


@pytest.mark.parametrize("family", MORE_FAMILIES)
def test_families_that_are_others_but_for_a_switch(tmp_path, family):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / family, family))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / family, dtype=torch.float32
    )
    model.generation_config.eos_token_id = None
    prompts = {name: random_prompts()[name] for name in ("prompt 2", "prompt 3", "prompt 6")}
    core = make_decoder_core(decoder, num_blocks=14, step_tokens=50)
    for again in ("", "again "):
        requests = [make_request(again + n, p, max_tokens=32) for n, p in prompts.items()]
        outcomes = run(core, requests)
        for name, prompt in prompts.items():
            assert outcomes[again + name].token_ids == generate(model, prompt, 32), name
    assert core.snapshot().preemptions + core.snapshot().evicted_blocks > 0


@pytest.mark.parametrize("chunk", [16, 24, 48, 512])
def test_a_sliding_window_survives_chunks_and_repeats(tmp_path, chunk):
    folder = save_tiny_model(tmp_path / "mistral", "mistral", sliding_window=24)
    decoder, _ = load_decoder(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    prompt = torch.randint(3, 300, (72,), generator=torch.Generator().manual_seed(2)).tolist()
    expected = generate(model, prompt, 48)
    core = make_decoder_core(decoder, step_tokens=chunk)
    for name in "abcd":
        assert run(core, [make_request(name, prompt, max_tokens=48)])[name].token_ids == expected


@pytest.mark.parametrize("head_dim", [32, 80, 96, None])
def test_a_head_dim_of_its_own(tmp_path, head_dim):
    folder = save_tiny_model(tmp_path / "llama", "llama", head_dim=head_dim)
    decoder, _ = load_decoder(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    prompt = random_prompts()["prompt 3"]
    outcome = run(make_decoder_core(decoder), [make_request("a", prompt, max_tokens=32)])["a"]
    assert outcome.token_ids == generate(model, prompt, 32)


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0, -1.0])
def test_beam_search(tmp_path, early_stopping, length_penalty):
    folder = save_tiny_model(tmp_path / "llama", "llama")
    decoder, _ = load_decoder(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    core = make_decoder_core(decoder, eos_ids=frozenset(EOS_IDS))
    for name, prompt in list(random_prompts().items())[2:5]:
        with torch.inference_mode():
            output = model.generate(
                torch.tensor([prompt]),
                num_beams=4,
                num_return_sequences=3,
                max_new_tokens=24,
                do_sample=False,
                early_stopping=early_stopping,
                length_penalty=length_penalty,
                eos_token_id=EOS_IDS,
                pad_token_id=PAD_ID,
                return_dict_in_generate=True,
                output_scores=True,
            )
        expected = [strip_padding(row[len(prompt) :].tolist()) for row in output.sequences]
        beam = BeamParams(4, length_penalty=length_penalty, early_stopping=early_stopping)
        request = make_request(
            name, prompt, num_samples=3, beam=beam, max_tokens=24, ignore_eos=False
        )
        outcome = run(core, [request])[name]
        branches = [outcome.branch(number) for number in range(3)]
        assert [branch.token_ids for branch in branches] == expected
        scores = [branch.finish.score for branch in branches]
        assert scores == pytest.approx(output.sequences_scores.tolist(), rel=1e-5)


def strip_padding(token_ids):
    while token_ids and token_ids[-1] == PAD_ID:
        token_ids = token_ids[:-1]
    return token_ids


def test_samples_of_one_prompt_equal_seeded_branches_alone(tmp_path):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "llama", "llama"))
    sampled = {"temperature": 0.8, "max_tokens": 40, "seed": 42, "num_samples": 4}
    prompts = random_prompts()
    alone = run(make_decoder_core(decoder), [make_request("a", prompts["prompt 4"], **sampled)])
    crowd = [make_request(n, p, max_tokens=40) for n, p in list(prompts.items())[5:]]
    crowded = run(
        make_decoder_core(decoder, num_blocks=34),
        [*crowd, make_request("a", prompts["prompt 4"], **sampled)],
    )
    answers = [alone["a"].branch(number).token_ids for number in range(4)]
    assert len({tuple(answer) for answer in answers}) == 4
    assert [crowded["a"].branch(number).token_ids for number in range(4)] == answers


def test_seeded_answers_do_not_depend_on_neighbours_or_preemption(tmp_path):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "llama", "llama"))
    sampled = {"temperature": 0.8, "max_tokens": 40, "seed": 42}
    prompts = random_prompts()
    mine = make_request("mine", prompts["prompt 4"], **sampled)
    alone = run(make_decoder_core(decoder), [mine])["mine"].token_ids
    others = [
        make_request(name, prompt, **{**sampled, "seed": seed})
        for seed, (name, prompt) in zip((None, 42, 1), list(prompts.items())[5:], strict=False)
    ]
    crowded = make_decoder_core(decoder, num_blocks=30)
    assert run(crowded, [*others, mine])["mine"].token_ids == alone
    assert run(make_decoder_core(decoder), [mine, *others])["mine"].token_ids == alone


def test_logits_that_are_not_finite_fail_their_request_alone(tmp_path):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "llama", "llama"))
    whole = decoder.logits

    def broken_first_row(hidden):
        logits = whole(hidden)
        logits[0] = float("nan")
        return logits

    decoder.logits = broken_first_row
    core = make_decoder_core(decoder)
    outcomes = run(core, [make_request(n, [5, 6, 7], max_tokens=1) for n in ("first", "second")])
    assert "not finite" in outcomes["first"].fail.error.message
    assert len(outcomes["second"].token_ids) == 1


def test_bfloat16_stays_close_to_float32(tmp_path):
    folder = save_tiny_model(tmp_path / "qwen3", "qwen3")
    exact, _ = load_decoder(folder)
    rounded, _ = load_decoder(folder, dtype=torch.bfloat16)
    prompt = random_prompts()["prompt 4"]
    logits = {}
    for decoder, dtype in ((exact, torch.float32), (rounded, torch.bfloat16)):
        seen = []
        whole = decoder.logits
        decoder.logits = lambda hidden, whole=whole, seen=seen: (
            seen.append(whole(hidden)) or seen[0].clone()
        )
        run(make_decoder_core(decoder, kv_dtype=dtype), [make_request("a", prompt, max_tokens=1)])
        logits[dtype] = seen[0]
    error = (logits[torch.bfloat16] - logits[torch.float32]).abs().max()
    assert error < 0.05 * logits[torch.float32].abs().max()
