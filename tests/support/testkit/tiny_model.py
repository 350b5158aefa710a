"""Tiny random models of every family the native decoder runs, saved as transformers saves them.

Weights are drawn wide enough that greedy decoding wanders through the vocabulary and that the
best token wins by far more than float32 rounding. Norms, biases and QK-norms are random too,
so that a term that is left out shows in the tokens. The same arguments give the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FAMILIES: tuple[str, ...] = (
    "llama",
    "llama-tied",
    "llama3-rope",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
)
MORE_FAMILIES: tuple[str, ...] = ("gemma", "granite", "smollm3", "olmo2")
"""Those of which nothing is new but a number or a switch."""

VOCAB_SIZE = 320
TOKENIZER_SIZE = 300
CONTEXT_LENGTH = 512
SLIDING_WINDOW = 24
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

_BASE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT_LENGTH,
    "initializer_range": 0.25,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
# The hidden size has no whole root, which is what embeddings are scaled by.
_GEMMA = {
    "hidden_size": 96,
    "head_dim": 32,
    "query_pre_attn_scalar": 20,
    "sliding_window": SLIDING_WINDOW,
    "tie_word_embeddings": True,
}
_GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 50_000.0, "factor": 4.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}
# Scores and logits are a few times as large as the caps.
_MULTIPLIERS = {
    "embedding_multiplier": 6.0,
    "attention_multiplier": 0.1,
    "residual_multiplier": 0.3,
    "logits_scaling": 4.0,
}
_CAPS = {"attn_logit_softcapping": 6.0, "final_logit_softcapping": 5.0}
_FAMILY: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama-tied": ("llama", {"tie_word_embeddings": True, "num_attention_heads": 8}),
    "llama3-rope": ("llama", {"tie_word_embeddings": True, "rope_parameters": _LLAMA3_ROPE}),
    "mistral": ("mistral", {"sliding_window": SLIDING_WINDOW}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True, "num_hidden_layers": 2}),
    "qwen3": ("qwen3", {"tie_word_embeddings": True, "head_dim": 32}),
    "gemma2": ("gemma2", {**_GEMMA, **_CAPS}),
    "gemma3": (
        "gemma3_text",
        {**_GEMMA, "sliding_window_pattern": 2, "rope_parameters": _GEMMA3_ROPE},
    ),
    "gemma": ("gemma", {"hidden_size": 96, "head_dim": 32, "tie_word_embeddings": True}),
    "granite": ("granite", _MULTIPLIERS),
    # Of each four layers the last one rotates nothing.
    "olmo2": ("olmo2", {}),
    "smollm3": ("smollm3", {"tie_word_embeddings": True, "num_hidden_layers": 4}),
}
_TRAINING_TEXT = (
    "the quick brown fox jumps over the lazy dog and the cat sat on the mat",
    "what is the capital of france? the capital of france is paris.",
    "one, two, three, four, five, six, seven, eight, nine, ten",
    "user system assistant: you are a helpful assistant",
)


def save_tiny_model(folder: Path, family: str, **overrides: Any) -> Path:
    """Write config, float32 safetensors, tokenizer and chat template into `folder`; return it.

    `overrides` replace fields of the transformers config, for example `head_dim=80`.
    """
    model = build_tiny_model(family, **overrides)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    return folder


def build_tiny_model(family: str, **overrides: Any) -> Any:
    """Return the random transformers model (float32, eval mode) that `save_tiny_model` writes."""
    import torch
    import transformers

    config = build_config(family, **overrides)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(sum(family.encode()))
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        _randomise_vectors(model)
    return model.eval()


def build_config(family: str, **overrides: Any) -> Any:
    """Return the family's transformers config."""
    import transformers

    model_type, changes = _FAMILY[family]
    return transformers.AutoConfig.for_model(model_type, **{**_BASE, **changes, **overrides})


def build_tokenizer(*, chat_template: str | None = CHAT_TEMPLATE) -> Any:
    """Return transformers' view of a byte-level BPE of 300 tokens with ChatML markers."""
    import transformers

    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=_train_tokenizer(),
        bos_token=SPECIAL_TOKENS[0],
        eos_token=SPECIAL_TOKENS[2],
        pad_token=SPECIAL_TOKENS[0],
        chat_template=chat_template,
        clean_up_tokenization_spaces=False,
    )


def _train_tokenizer() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENIZER_SIZE,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL_TOKENS],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TRAINING_TEXT, trainer)
    return tokenizer


def _randomise_vectors(model: Any) -> None:
    """Give norm weights and biases, which transformers starts at one and zero, random values."""
    import torch

    offset = 1.0 if model.config.model_type.startswith("gemma") else 0.0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.5)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5).sub_(offset)
