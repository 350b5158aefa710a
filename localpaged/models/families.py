"""The families of models that run, by every name that files give them: the one place."""

from __future__ import annotations

from collections.abc import Mapping

FOLDER_TYPES: Mapping[str, str] = {
    "llama": "llama",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
    "granite": "granite",
    "smollm3": "smollm3",
    "olmo2": "olmo2",
}
"""A `DecoderConfig.architecture` by the `model_type` of a config.json; gemma3 is the model that
sees pictures, too, of which the part that reads and writes text runs."""

GGUF_ARCHITECTURES = tuple(
    name for name in dict.fromkeys(FOLDER_TYPES.values()) if name != "mistral"
)
"""Mistral's and SmolLM2's files call themselves llama."""

INTERLEAVED = ("llama", "granite", "smollm3")
"""Architectures in whose GGUF files the rows of rotated heads come in pairs, not in halves."""

GEMMAS = ("gemma", "gemma2", "gemma3")
POST_NORMED = ("gemma2", "gemma3", "olmo2")
"""What attention and MLP give is normalised before it is added."""

HEADS_NORMED = ("qwen3", "gemma3", "olmo2")
"""Queries and keys are normalised."""

TITLES: Mapping[str, str] = {
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma": "Gemma",
    "gemma2": "Gemma 2",
    "gemma3": "Gemma 3",
    "granite": "Granite 3",
    "smollm3": "SmolLM3",
    "olmo2": "OLMo 2",
}
"""How people call them."""

OTHER_MODEL_HINT = f"Models of the families {', '.join(TITLES.values())} run, SmolLM2 among them."
