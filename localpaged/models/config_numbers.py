"""The numbers of a decoder config that are multiplied by, divided by, or taken a root of."""

from __future__ import annotations

from collections.abc import Iterator

from localpaged.decoder_config import DecoderConfig, Llama3RopeScaling
from localpaged.errors import BadModelFile

SMALLEST, LARGEST = 1.2e-38, 3.4e38
"""What float32 can hold, in which models are computed."""


def check_numbers(config: DecoderConfig, *, shown: str) -> None:
    """Raise BadModelFile for numbers that would make nonsense of what is computed."""
    wrong = [
        f"{name} {_shown(number)}"
        for name, number in _numbers(config)
        if number is not None and not SMALLEST <= number <= LARGEST
    ]
    if config.sliding_window is not None and config.sliding_window < 1:
        wrong.append(f"window {config.sliding_window}")
    scaling = config.rope_scaling
    if (
        isinstance(scaling, Llama3RopeScaling)
        and not scaling.low_freq_factor < scaling.high_freq_factor
    ):
        wrong.append(
            f"rope factor {scaling.low_freq_factor:g} for low frequencies and "
            f"{scaling.high_freq_factor:g} for high ones"
        )
    if wrong:
        raise BadModelFile(
            f"{shown}: its config has the {', '.join(wrong)}.",
            hint="The config is damaged: fetch the model again.",
        )


def _numbers(config: DecoderConfig) -> Iterator[tuple[str, float | None]]:
    yield "norm epsilon", config.rms_norm_eps
    yield "rope base", config.rope_theta
    yield "rope base of layers with a window", config.local_rope_theta
    yield "embedding scale", config.embed_scale
    yield "attention scale", config.query_scale
    yield "attention softcap", config.attention_softcap
    yield "logit softcap", config.logit_softcap
    yield "logit scale", config.last_norm_scale
    scaling = config.rope_scaling
    if scaling is not None:
        yield "rope factor", scaling.factor
    if isinstance(scaling, Llama3RopeScaling):
        yield "rope factor for low frequencies", scaling.low_freq_factor
        yield "rope factor for high frequencies", scaling.high_freq_factor
        yield "original context", scaling.original_context


def _shown(number: float) -> str:
    try:
        return f"{number:g}"
    except OverflowError:  # a whole number with more digits than a sentence has room for
        return f"{str(number)[:12]}…"
