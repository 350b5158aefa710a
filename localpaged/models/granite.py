"""Granite's four multipliers, as scales that a decoder has anyway.

Whatever its layers add is multiplied by r. Here the hidden states are kept divided by r instead, so
that nothing has to be multiplied: norms do not notice, but for their epsilon.
"""

from __future__ import annotations

from dataclasses import replace

from localpaged.decoder_config import DecoderConfig


def with_multipliers(
    config: DecoderConfig, *, embedding: float, attention: float, residual: float, logits: float
) -> DecoderConfig:
    """Return the config of a model whose logits are divided by `logits`."""
    return replace(
        config,
        embed_scale=embedding / residual,
        rms_norm_eps=config.rms_norm_eps / residual / residual,  # a square may not be a number
        query_scale=attention,
        last_norm_scale=1 / logits,
    )
