"""The default model, dequantised to float32, answers exactly as transformers does."""

import pytest
import torch
import transformers
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

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
def case(default_model):
    decoder, opened = load_decoder(default_model)
    model = transformers_model(default_model, opened.config)
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


def transformers_model(path, config):
    """Return transformers' model with the tensors that transformers makes of the file."""
    shape = transformers.LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        max_position_embeddings=config.context_length,
        rms_norm_eps=config.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        tie_word_embeddings=config.is_tied,
        eos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(shape)
    loaded = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)
    missing, unexpected = model.load_state_dict(loaded["tensors"], strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    model.tie_weights()
    return model.eval()


# transformers takes a while to read the file.
@pytest.mark.timeout(400)
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
