"""Tiny random models of the families that run: ours and transformers' from the same weights."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.models.tensor_layout import tensor_layout
from localpaged.models.transformers_config import transformers_decoder_config

WINDOW = 24
_BASE: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "bos_token_id": 0,
    "eos_token_id": None,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_GEMMA = {
    "head_dim": 64,
    "query_pre_attn_scalar": 40,
    "sliding_window": WINDOW,
    "tie_word_embeddings": True,
}
_LOCAL_ROPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 50_000.0, "factor": 4.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}
_CAPS = {"attn_logit_softcapping": 6.0, "final_logit_softcapping": 5.0}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen3": ("qwen3", {"head_dim": 64, "tie_word_embeddings": True}),
    "Llama 3": ("llama", {"rope_parameters": _LLAMA3, "num_key_value_heads": 1}),
    "Mistral": ("mistral", {"sliding_window": WINDOW, "head_dim": 80}),
    "Qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "Gemma 3": (
        "gemma3_text",
        {**_GEMMA, "sliding_window_pattern": 2, "rope_parameters": _LOCAL_ROPE},
    ),
    "Gemma 2": ("gemma2", {**_GEMMA, **_CAPS}),
}


class Family:
    """A model in both forms. Norms and biases are random, so one that is left out shows."""

    def __init__(self, name: str, device: torch.device, *, num_layers: int = 3) -> None:
        import transformers

        transformers.logging.set_verbosity_error()
        model_type, changes = FAMILIES[name]
        self._norm_offset = 1.0 if model_type.startswith("gemma") else 0.0
        fields = {**_BASE, **changes, "num_hidden_layers": num_layers}
        config = transformers.AutoConfig.for_model(model_type, **fields)
        torch.manual_seed(sum(name.encode()))
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter_name, parameter in model.named_parameters():
                if parameter_name.endswith("bias"):
                    parameter.normal_(0.0, 0.5)
                elif "norm" in parameter_name:
                    parameter.uniform_(0.5, 1.5).sub_(self._norm_offset)
        self.name = name
        self.model: Any = model.eval().to(device)
        self.config = _read(config)
        self._device = device

    def state(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Return the engine's weights."""
        theirs = self.model.state_dict()
        state = {}
        for fused in tensor_layout(self.config):
            whole = torch.cat([theirs[part.name] for part in fused.parts])
            state[fused.name] = (whole + self._norm_offset * fused.is_norm).to(dtype)
        return state

    def generate(self, prompt: tuple[int, ...], num_tokens: int) -> list[int]:
        """Return what transformers answers, greedily."""
        ids = torch.tensor([prompt], device=self._device)
        with torch.inference_mode():
            made = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                min_new_tokens=num_tokens,
                max_new_tokens=num_tokens,
                do_sample=False,
                pad_token_id=0,
            )
        return [int(token) for token in made[0, len(prompt) :]]

    def beams(self, prompt: tuple[int, ...], num_tokens: int, *, width: int) -> list[list[int]]:
        """Return the beams that transformers finds, best first."""
        ids = torch.tensor([prompt], device=self._device)
        with torch.inference_mode():
            made = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=num_tokens,
                num_beams=width,
                num_return_sequences=width,
                do_sample=False,
                pad_token_id=0,
            )
        return [[int(token) for token in row[len(prompt) :]] for row in made]

    def logprobs(self, prompt: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Return the log probability of each token of a prompt but the first, [tokens] float32."""
        ids = torch.tensor([prompt], device=self._device)
        with torch.inference_mode():
            logits = self.model.to(dtype)(ids).logits[0, :-1].float()
        self.model.to(torch.float32)
        return logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0].cpu()


def _read(config: Any) -> DecoderConfig:
    """Return the shape that the program reads from a model's folder."""
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        return transformers_decoder_config(Path(folder))
