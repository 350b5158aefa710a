"""The whole engine on Triton's kernels, interpreted: what it answers is what transformers answers.

An interpreted program takes milliseconds, so models and prompts are as small as their rule lets
them be.
"""

import os
from dataclasses import replace

import pytest
import torch
import transformers

from localpaged.engine.batch import build_batch
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.operators import torch_operators, triton_operators
from localpaged.engine.params import SamplingParams
from localpaged.engine.step_plan import PlannedRow, StepPlan
from localpaged_kernels.paged_attention import beginnings
from localpaged_kernels.paged_attention.triton_cascade import groups_of
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_request, run
from testkit.tiny_model import FAMILIES, save_tiny_model

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's"
)

PROMPT = torch.randint(3, 300, (40,), generator=torch.Generator().manual_seed(1)).tolist()
WIDE = {torch.bfloat16: 5e-2, torch.float16: 1e-2}


def load(folder, family, *, dtype=torch.float32, operators=None, layers=1, **overrides):
    """Return the decoder on Triton's operators of a model with few layers, saved there."""
    save_tiny_model(folder, family, num_hidden_layers=layers, **overrides)
    return load_decoder(folder, dtype=dtype, operators=operators or triton_operators())[0]


def generate(folder, prompt, num_tokens):
    """Return what transformers answers to one prompt, never stopping early."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    with torch.inference_mode():
        output = model.generate(
            torch.tensor([prompt]),
            max_new_tokens=num_tokens,
            min_new_tokens=num_tokens,
            do_sample=False,
        )
    return output[0, len(prompt) :].tolist()


@pytest.mark.parametrize("family", [*FAMILIES, "smollm3", "olmo2"])
def test_every_family_cold_in_chunks_and_after_full_and_partial_hits(tmp_path, family):
    # The window is one that a chunk, a hit and a decode go beyond.
    special = {family: {"sliding_window": 18} for family in ("mistral", "gemma2", "gemma3")}
    special["smollm3"] = {"no_rope_layers": [1, 0]}
    layers = 1 if family in ("llama-tied", "llama3-rope", "mistral", "qwen2") else 2
    decoder = load(tmp_path, family, layers=layers, **special.get(family, {}))
    core = make_decoder_core(decoder, step_tokens=20)
    prompts = {"cold": PROMPT[:30], "hit": PROMPT[:30], "partial": [*PROMPT[:19], *PROMPT[30:32]]}
    requests = [make_request(name, prompt, max_tokens=3) for name, prompt in prompts.items()]
    outcomes = run(core, requests[:1])
    outcomes |= run(core, requests[1:])
    cached = [outcomes[name].finish.usage.cached_tokens for name in prompts]
    assert cached == [0, 29, 19]
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == generate(tmp_path, prompt, 3), name


@pytest.mark.parametrize("host_use", ["never", "always"], ids=["recomputed", "swapped"])
def test_preempted_and_evicted(tmp_path, host_use):
    decoder = load(tmp_path, "qwen3")
    core = make_decoder_core(decoder, num_blocks=3, host_blocks=6, host_use=host_use)
    prompts = {"a": PROMPT[:31], "b": PROMPT[20:35]}
    outcomes = run(core, [make_request(n, p, max_tokens=4) for n, p in prompts.items()])
    assert core.snapshot().preemptions > 0
    assert (core.snapshot().swapped_in_blocks > 0) == (host_use == "always")
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == generate(tmp_path, prompt, 4)


@pytest.mark.parametrize("is_last_merging", [False, True], ids=["two launches", "last merges"])
def test_those_that_share_a_beginning_attend_to_it_together(tmp_path, monkeypatch, is_last_merging):
    monkeypatch.setattr(beginnings, "SMALLEST_SAVING_TOKENS", 32)
    groups = []
    operators = triton_operators(is_last_merging=is_last_merging)

    def attend(queries, kv, batch, **numbers):
        groups.append(groups_of(batch, queries.device, window=None))
        return operators.attend(queries, kv, batch, **numbers)

    decoder = load(tmp_path, "llama", operators=replace(operators, attend=attend))
    core = make_decoder_core(decoder)
    prompts = {str(n): [*PROMPT[:17], n + 5] for n in range(4)}
    outcomes = run(core, [make_request(n, p, max_tokens=2) for n, p in prompts.items()])
    assert any(found is not None and len(found.members) == 3 for found in groups)
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == generate(tmp_path, prompt, 2)


def test_a_head_of_80_dimensions(tmp_path):
    decoder = load(tmp_path, "llama", head_dim=80)
    outcome = run(make_decoder_core(decoder), [make_request("a", PROMPT[:18], max_tokens=3)])["a"]
    assert outcome.token_ids == generate(tmp_path, PROMPT[:18], 3)


def logits(decoder, *, kv_dtype):
    """Return the logits of a chunk's and a decode's last tokens, the former behind a prefix."""
    kv = KVStorage(
        decoder.config, num_blocks=4, block_size=16, dtype=kv_dtype, operators=decoder.operators
    )
    kv.poison()
    found = []
    for start, end in ((0, 18), (18, 22), (22, 23)):
        row = PlannedRow(0, "a", tuple(PROMPT[start:end]), start, (2, 4), SamplingParams())
        batch = build_batch(StepPlan((row,), ()), block_size=16)
        found.append(decoder.logits(decoder.forward(batch, kv)[-1:]))
    return torch.cat(found)


def test_kv_of_int8_is_what_torch_makes_of_it(tmp_path):
    decoder = load(tmp_path, "qwen3")
    plain, _ = load_decoder(tmp_path, operators=torch_operators())
    expected = logits(plain, kv_dtype=torch.int8)
    exact = logits(plain, kv_dtype=torch.float32)
    found = logits(decoder, kv_dtype=torch.int8)
    # A last digit may fall to the other side of one of 255 steps.
    assert (found - expected).abs().max() < 0.1 * (expected - exact).abs().max()


def test_kv_of_fp8_stays_close_to_float32(tmp_path):
    decoder = load(tmp_path, "qwen3")
    exact = logits(load_decoder(tmp_path)[0], kv_dtype=torch.float32)
    error = (logits(decoder, kv_dtype=torch.float8_e4m3fn) - exact).abs().max()
    assert 0 < error < 0.1 * exact.abs().max()


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_16_bits_stay_close_to_float32(tmp_path, dtype):
    decoder = load(tmp_path, "qwen2", dtype=dtype, layers=2)
    exact = logits(load_decoder(tmp_path)[0], kv_dtype=torch.float32)
    found = logits(decoder, kv_dtype=dtype)
    assert (found - exact).abs().max() < WIDE[dtype] * exact.abs().max()
    assert not torch.equal(found, exact)
