"""Shapes of the models that are measured: Qwen3 8B, 4B, 0.6B, and a tiny one to rehearse with."""

from __future__ import annotations

from localpaged.decoder_config import DecoderConfig


def _qwen3(
    *,
    hidden_size: int,
    intermediate_size: int,
    num_layers: int,
    num_heads: int,
    is_tied: bool,
    num_kv_heads: int = 8,
    head_dim: int = 128,
    vocab_size: int = 151_936,
    context_length: int = 40_960,
) -> DecoderConfig:
    return DecoderConfig(
        architecture="qwen3",
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        context_length=context_length,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        has_qk_norm=True,
        is_tied=is_tied,
    )


QWEN3_8B, QWEN3_4B, QWEN3_06B = "Qwen3 8B", "Qwen3 4B", "Qwen3 0.6B"

MODELS = {
    QWEN3_8B: _qwen3(
        hidden_size=4_096, intermediate_size=12_288, num_layers=36, num_heads=32, is_tied=False
    ),
    QWEN3_4B: _qwen3(
        hidden_size=2_560, intermediate_size=9_728, num_layers=36, num_heads=32, is_tied=True
    ),
    QWEN3_06B: _qwen3(
        hidden_size=1_024, intermediate_size=3_072, num_layers=28, num_heads=16, is_tied=True
    ),
}
"""By name, the largest first."""

TINY = _qwen3(
    hidden_size=32,
    intermediate_size=48,
    num_layers=1,
    num_heads=2,
    is_tied=True,
    num_kv_heads=1,
    head_dim=32,
    vocab_size=128,
    context_length=512,
)


def transformers_fields(config: DecoderConfig) -> dict[str, object]:
    """Return the fields of transformers' Qwen3Config for a shape."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.context_length,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "tie_word_embeddings": config.is_tied,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": 0,
    }


def num_parameters(config: DecoderConfig) -> int:
    """Return the numbers in all weights."""
    from localpaged.models.opened_model import count_parameters

    return count_parameters(config)
