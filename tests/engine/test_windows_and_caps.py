"""Layers with a window beside layers without, and scores between caps: as transformers has them."""

from dataclasses import replace

import pytest
import torch
import transformers

from localpaged.engine.native import NativeDecoder
from localpaged.engine.params import BeamParams
from localpaged.models.weights import load_state
from localpaged_kernels.paged_attention import torch_cpu
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_request, run
from testkit.tiny_model import save_tiny_model

WINDOW = 32


def tokens(count, *, seed=2):
    return torch.randint(3, 300, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


class Pair:
    """A tiny model in both programs."""

    def __init__(self, folder, family, *, louder=1.0, **overrides):
        save_tiny_model(folder, family, **overrides)
        self.theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.theirs.generation_config.eos_token_id = None
        if louder != 1.0:
            with torch.no_grad():
                for name, parameter in self.theirs.named_parameters():
                    if name.endswith(("q_proj.weight", "k_proj.weight")):
                        parameter.mul_(louder)
            self.theirs.save_pretrained(folder)
        self.decoder, self.opened = load_decoder(folder)
        self._made = {}

    def generate(self, prompt, count, **options):
        key = (tuple(prompt), count, *options.items())
        if key not in self._made:
            self._made[key] = self._generate(prompt, count, **options)
        return self._made[key]

    def _generate(self, prompt, count, **options):
        with torch.inference_mode():
            ids = torch.tensor([prompt])
            made = self.theirs.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=count,
                min_new_tokens=count,
                do_sample=False,
                **options,
            )
        return [row[len(prompt) :].tolist() for row in made]

    def logprobs(self, prompt):
        with torch.inference_mode():
            logits = self.theirs(torch.tensor([prompt])).logits[0, :-1]
        return logits.log_softmax(-1).gather(1, torch.tensor(prompt[1:])[:, None])[:, 0].tolist()


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    return Pair(tmp_path_factory.mktemp("model") / "gemma3", "gemma3", sliding_window=WINDOW)


@pytest.mark.parametrize("step_tokens", [16, WINDOW, 2 * WINDOW, 512])
def test_chunks_and_repeats_of_prompts_beyond_a_window(gemma, step_tokens):
    core = make_decoder_core(gemma.decoder, step_tokens=step_tokens)
    for length in (WINDOW * 14 // 10, WINDOW * 3):
        prompt = tokens(length, seed=length)
        (expected,) = gemma.generate(prompt, 20)
        for repeat in range(4):
            name = f"{length} {repeat}"
            found = run(core, [make_request(name, prompt, max_tokens=20)])[name]
            assert found.token_ids == expected, name


@pytest.mark.parametrize("step_tokens", [512, 2_048])
def test_the_window_that_real_models_have(tmp_path, step_tokens):
    wide = Pair(tmp_path, "gemma3", sliding_window=512, max_position_embeddings=2_048)
    core = make_decoder_core(wide.decoder, step_tokens=step_tokens)
    prompt = tokens(3 * 512)
    (expected,) = wide.generate(prompt, 12)
    for name in "ab":
        found = run(core, [make_request(name, prompt, max_tokens=12)])[name]
        assert found.token_ids == expected


def test_chats_behind_one_long_beginning_share_it_where_layers_see_all(gemma, monkeypatch):
    found = []
    whole = torch_cpu.cascade_of
    monkeypatch.setattr(
        torch_cpu, "cascade_of", lambda batch: found.append(whole(batch)) or found[-1]
    )
    beginning = tokens(300)
    prompts = {str(n): [*beginning, *tokens(n + 2, seed=n)] for n in range(4)}
    core = make_decoder_core(gemma.decoder)
    run(core, [make_request("first", beginning, max_tokens=1)])
    requests = [make_request(name, prompt, max_tokens=8) for name, prompt in prompts.items()]
    outcomes = run(core, requests)
    for name, prompt in prompts.items():
        assert [outcomes[name].token_ids] == gemma.generate(prompt, 8)
    assert len(found) == 7 and found[0] is not None  # one layer of three asks, in each decode


def test_beams(gemma):
    prompt = tokens(40)
    beam = BeamParams(4)
    request = make_request("a", prompt, num_samples=3, beam=beam, max_tokens=20)
    outcome = run(make_decoder_core(gemma.decoder), [request])["a"]
    expected = gemma.generate(prompt, 20, num_beams=4, num_return_sequences=3)
    assert [outcome.branch(number).token_ids for number in range(3)] == expected


@pytest.mark.parametrize("louder", [1.0, 20.0], ids=["as drawn", "loud queries and keys"])
def test_caps_hold_in_prompts_behind_hits_and_in_answers(tmp_path, louder):
    caps = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0} if louder > 1 else {}
    pair = Pair(tmp_path, "gemma2", louder=louder, sliding_window=WINDOW, **caps)
    core = make_decoder_core(pair.decoder, step_tokens=40)
    prompt = tokens(90)
    (expected,) = pair.generate(prompt, 24)
    cold = run(core, [make_request("cold", prompt, max_tokens=24, prompt_logprobs=0)])["cold"]
    hit = run(core, [make_request("hit", prompt, max_tokens=24, logprobs=0)])["hit"]
    assert hit.finish.usage.cached_tokens == len(prompt) - 1
    assert cold.token_ids == hit.token_ids == expected
    told = pair.logprobs([*prompt, *expected])
    found = [token.logprob for token in (*cold.prompt_logprobs, *hit.logprobs)]
    assert found == pytest.approx(told, abs=5e-4)


@pytest.mark.parametrize("cap", ["attention_softcap", "logit_softcap"])
def test_a_cap_that_is_left_out_shows(tmp_path, cap):
    pair = Pair(tmp_path, "gemma2")
    config = replace(pair.opened.config, **{cap: None})
    bare = NativeDecoder(config, load_state(pair.opened, dtype=torch.float32))
    prompt = tokens(60)
    request = make_request("a", prompt, prompt_logprobs=0, max_tokens=1)
    told = [
        [token.logprob for token in run(make_decoder_core(d), [request])["a"].prompt_logprobs]
        for d in (pair.decoder, bare)
    ]
    assert torch.tensor(told[0]).sub(torch.tensor(told[1])).abs().max() > 0.5


@pytest.mark.parametrize("family", ["gemma2", "gemma3"])
@pytest.mark.parametrize("kv_dtype", [torch.bfloat16, torch.int8], ids=str)
def test_fewer_bits_stay_close(tmp_path, family, kv_dtype):
    pair = Pair(tmp_path, family)
    dtype = torch.bfloat16 if kv_dtype is torch.bfloat16 else torch.float32
    rounded, _ = load_decoder(tmp_path, dtype=dtype)
    request = make_request("a", tokens(90), prompt_logprobs=0, max_tokens=1)
    outcome = run(make_decoder_core(rounded, kv_dtype=kv_dtype), [request])["a"]
    found = torch.tensor([token.logprob for token in outcome.prompt_logprobs])
    error = (found - torch.tensor(pair.logprobs(tokens(90)))).abs()
    assert 0 < error.mean() < 0.2
