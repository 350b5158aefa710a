"""The whole engine as on a GPU: Triton's kernels (interpreted), graphs, flights, on a fake device.

An interpreted program takes milliseconds, so the model and the prompts are as small as their rule
lets them be.
"""

import os

import pytest
import torch
import transformers

from localpaged.engine.operators import triton_operators
from localpaged_kernels.paged_attention import beginnings
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import collect, drain, make_request
from testkit.fake_device import FakeDevice
from testkit.gpu_runs import triton_runner
from testkit.tiny_model import save_tiny_model

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's"
)

PROMPT = torch.randint(3, 300, (40,), generator=torch.Generator().manual_seed(1)).tolist()
TINY = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "head_dim": 16}
MAX_TOKENS = 5
# Of two layers one has a window that the prompts go beyond, and shares no beginning.
MIXED = {"num_hidden_layers": 2, "sliding_window": 18}
FAMILIES = {"qwen3": {}, "gemma2": MIXED}


def generate(folder, prompt):
    """Return what transformers answers to one prompt, never stopping early."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    with torch.inference_mode():
        output = model.generate(
            torch.tensor([prompt]),
            max_new_tokens=MAX_TOKENS,
            min_new_tokens=MAX_TOKENS,
            do_sample=False,
        )
    return output[0, len(prompt) :].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_chats_with_hits_in_a_pool_too_small_answer_as_transformers_does(
    tmp_path, monkeypatch, family
):
    monkeypatch.setattr(beginnings, "SMALLEST_SAVING_TOKENS", 16)
    save_tiny_model(tmp_path, family, **{**TINY, **FAMILIES[family]})
    decoder, _ = load_decoder(tmp_path, operators=triton_operators())
    device = FakeDevice()
    core = make_decoder_core(
        decoder,
        num_blocks=4,
        max_running=2,
        make_runner=triton_runner(decoder, device, max_rows=2, num_blocks=4),
    )
    # Both begin with one block, which they attend to together; each needs a third one soon.
    prompts = {"a": PROMPT[:30], "b": [*PROMPT[:16], *PROMPT[20:34]], "hit": [*PROMPT[:30], 9]}
    outcomes = {}
    for name in "ab":
        request = make_request(name, prompts[name], max_tokens=MAX_TOKENS)
        collect(outcomes, core.submit(request))
    drain(core, outcomes)
    collect(outcomes, core.submit(make_request("hit", prompts["hit"], max_tokens=MAX_TOKENS)))
    drain(core, outcomes)
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == generate(tmp_path, prompt), name
    told = core.snapshot()
    assert told.preemptions > 0 and told.runner_note == ""
    assert outcomes["hit"].finish.usage.cached_tokens >= 29
    assert device.num_replays > 0
    assert device.num_captures == 2  # one row alone, two that share their beginning
