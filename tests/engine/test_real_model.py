"""The default model, dequantised to float32, answers exactly as transformers does."""

import pytest
import torch
import transformers

from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_request, run

NUM_TOKENS = 64
SYSTEM = "You are a helpful AI assistant."
QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "List three prime numbers and say why each is prime.",
    "def fibonacci(n):",
    "Übersetze „guten Morgen“ ins Englische. 早上好 🙂",
)


@pytest.fixture(scope="module")
def case(default_model, tmp_path_factory):
    decoder, opened = load_decoder(default_model)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        default_model.parent, gguf_file=default_model.name, dtype=torch.float32
    )
    model.generation_config.eos_token_id = None
    prompts = {q: opened.chat.encode(f"{SYSTEM}\n{q}\n") for q in QUESTIONS}
    expected = {}
    with torch.inference_mode():
        for question, prompt in prompts.items():
            output = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
                max_new_tokens=NUM_TOKENS,
                do_sample=False,
            )
            expected[question] = output[0, len(prompt) :].tolist()
    return decoder, prompts, expected


def test_five_prompts_alone_together_and_again(case):
    decoder, prompts, expected = case
    core = make_decoder_core(decoder, step_tokens=96, stream_stretch=1.5)
    first = QUESTIONS[0]
    alone = run(core, [make_request("alone", prompts[first], max_tokens=NUM_TOKENS)])
    assert alone["alone"].token_ids == expected[first]
    requests = [make_request(q, p, max_tokens=NUM_TOKENS) for q, p in prompts.items()]
    outcomes = run(core, requests)
    for question in QUESTIONS:
        assert outcomes[question].token_ids == expected[question], question
    assert outcomes[first].finish.usage.cached_tokens == len(prompts[first]) - 1
