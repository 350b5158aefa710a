"""The GPU's runner on a fake device, with Triton's kernels interpreted: same answers, no waits.

An interpreted program takes milliseconds, so models and prompts are as small as their rule lets
them be.
"""

import os

import pytest
import torch
import transformers

from localpaged.engine.operators import triton_operators
from testkit.decoders import load_decoder
from testkit.engine_runs import make_request, run
from testkit.fake_device import FakeDevice
from testkit.gpu_runs import make_gpu_core
from testkit.tiny_model import save_tiny_model

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's"
)

PROMPT = torch.randint(3, 300, (40,), generator=torch.Generator().manual_seed(1)).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_tiny_model(
        path, "qwen3", num_hidden_layers=1, hidden_size=32, intermediate_size=32, head_dim=16
    )
    return path


@pytest.fixture(scope="module")
def decoder(folder):
    return load_decoder(folder, operators=triton_operators())[0]


@pytest.fixture(scope="module")
def generate(folder):
    """What transformers answers to one prompt, never stopping early."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None

    def answer(prompt, num_tokens):
        with torch.inference_mode():
            output = model.generate(
                torch.tensor([prompt]),
                max_new_tokens=num_tokens,
                min_new_tokens=num_tokens,
                do_sample=False,
            )
        return output[0, len(prompt) :].tolist()

    return answer


@pytest.mark.parametrize("has_graphs", [True, False], ids=["graphs", "no graphs"])
def test_several_chats_with_hits_and_different_lengths(decoder, generate, has_graphs):
    device = FakeDevice()
    core, runner = make_gpu_core(decoder, device, has_graphs=has_graphs, step_tokens=20)
    prompts = {"a": PROMPT[:30], "b": PROMPT[3:12], "c": [*PROMPT[:19], *PROMPT[30:34]]}
    lengths = {"a": 12, "b": 5, "c": 9}
    outcomes = run(core, [make_request(n, p, max_tokens=lengths[n]) for n, p in prompts.items()])
    outcomes |= run(core, [make_request("d", prompts["a"], max_tokens=4)])
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == generate(prompt, lengths[name]), name
    assert outcomes["d"].finish.usage.cached_tokens == 29
    assert (device.num_replays > 0) == has_graphs
    assert runner.num_graphs == (3 if has_graphs else 0)
