"""Windows, rotations, scales and caps of GGUF files, with the defaults that llama.cpp has."""

from __future__ import annotations

from collections.abc import Sequence

from localpaged.decoder_config import LinearRopeScaling
from localpaged.errors import UnsupportedModel
from localpaged.models.families import OTHER_MODEL_HINT
from localpaged.models.gguf_fields import GgufFields, short

_PATTERN = "attention.sliding_window_pattern"
_PERIODS = {"gemma2": 2, "gemma3": 6}
"""Every so manyth layer sees all unless the file tells otherwise."""

_GEMMA2_WINDOW = 4_096
_LOCAL_THETA = 10_000.0
_GEMMA2_CAPS = (50.0, 30.0)
_UNROTATED_PERIOD = 4
_LAYERS_OF_27B = {"gemma2": 46, "gemma3": 62}
"""By which llama.cpp knows the models whose queries are scaled otherwise; no file tells it."""


def windows_of(fields: GgufFields, num_layers: int) -> tuple[int | None, tuple[int, ...]]:
    """Return the window and the layers without one.

    Raises UnsupportedModel where an architecture has windows in layers that the file does not name.
    """
    architecture = fields.architecture
    window = fields.get("attention.sliding_window")
    if window is None and architecture == "gemma2":
        window = _GEMMA2_WINDOW
    if window in (None, 0):
        return None, ()
    if architecture not in ("llama", *_PERIODS):
        raise UnsupportedModel(
            f"{fields.shown}: {architecture} with a sliding window in some layers "
            "is not supported.",
            hint=OTHER_MODEL_HINT,
        )
    full = _full_layers(fields, num_layers) if architecture in _PERIODS else ()
    if len(full) == num_layers:
        return None, ()
    return fields.whole("attention.sliding_window", default=_GEMMA2_WINDOW), full


def rope_scaling_of(fields: GgufFields) -> LinearRopeScaling | None:
    """Return how frequencies are scaled beside what factors of each do.

    Raises UnsupportedModel for what is not linear.
    """
    kind = fields.get("rope.scaling.type")
    if kind not in (None, "none", "linear"):
        raise UnsupportedModel(
            f"{fields.shown}: the rope scaling {short(kind)} is not supported.",
            hint="Choose a version of the model without extended context.",
        )
    names = [key for key in ("rope.scaling.factor", "rope.scale_linear") if fields.get(key)]
    if kind == "none" or not names:
        return None
    factor = fields.real(names[0])
    return None if factor == 1.0 else LinearRopeScaling(factor)


def local_theta_of(fields: GgufFields) -> float | None:
    """Return the base of rotations in layers with a window; None where it is that of all."""
    if fields.architecture != "gemma3":
        return None
    return fields.real("rope.freq_base_swa", default=_LOCAL_THETA)


def softcaps_of(fields: GgufFields) -> tuple[float | None, float | None]:
    """Return the caps of attention's scores and of logits; None for none."""
    if fields.architecture == "gemma2":
        scores, logits = _GEMMA2_CAPS
        return (
            fields.real("attn_logit_softcapping", default=scores),
            fields.real("final_logit_softcapping", default=logits),
        )
    has_cap = fields.architecture == "gemma3" and fields.get("final_logit_softcapping")
    return None, fields.real("final_logit_softcapping") if has_cap else None


def query_scale_of(
    fields: GgufFields, *, num_layers: int, hidden_size: int, num_heads: int, head_dim: int
) -> float | None:
    """Return what attention's scores are multiplied by; None for 1/√head_dim."""
    is_largest = _LAYERS_OF_27B.get(fields.architecture) == num_layers
    width = hidden_size // num_heads
    return width**-0.5 if is_largest and width != head_dim else None


def unrotated_layers_of(fields: GgufFields, num_layers: int) -> tuple[int, ...]:
    """Return the layers without rotations; no file tells them.

    Raises UnsupportedModel for a Granite model that is said to have none at all.
    """
    if fields.architecture == "granite" and fields.get("rope.scaling.finetuned") is False:
        raise UnsupportedModel(
            f"{fields.shown}: granite without rotations is not supported.", hint=OTHER_MODEL_HINT
        )
    if fields.architecture != "smollm3":
        return ()
    return tuple(range(_UNROTATED_PERIOD - 1, num_layers, _UNROTATED_PERIOD))


def _full_layers(fields: GgufFields, num_layers: int) -> tuple[int, ...]:
    pattern = fields.get(_PATTERN)
    if isinstance(pattern, Sequence) and not isinstance(pattern, str):
        if len(pattern) != num_layers:
            raise fields.bad(_PATTERN, pattern)
        return tuple(layer for layer, has_window in enumerate(pattern) if not has_window)
    if pattern == 0:
        return ()
    period = fields.whole(_PATTERN, default=_PERIODS[fields.architecture])
    return tuple(range(period - 1, num_layers, period))
