"""The families of models that run, by every name that files give them: the one place."""

from __future__ import annotations

from collections.abc import Mapping

FOLDER_TYPES: Mapping[str, str] = {
    "llama": "llama",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
}
"""A `DecoderConfig.architecture` by the `model_type` of a config.json; gemma3 is the model that
sees pictures, too, of which the part that reads and writes text runs."""

GGUF_ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3")
"""Mistral's and SmolLM2's files call themselves llama."""

GEMMAS = ("gemma2", "gemma3")

TITLES: Mapping[str, str] = {
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma2": "Gemma 2",
    "gemma3": "Gemma 3",
}
"""How people call them."""

OTHER_MODEL_HINT = f"Models of the families {', '.join(TITLES.values())} run, SmolLM2 among them."
