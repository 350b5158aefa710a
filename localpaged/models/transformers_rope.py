"""Rotations as transformers' configs spell them: one for all layers, or one for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localpaged.decoder_config import LinearRopeScaling, Llama3RopeScaling
from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.plain_text import visible

_FULL, _LOCAL = "full_attention", "sliding_attention"


def rope_of(
    folder: Path, config: Any
) -> tuple[float, Llama3RopeScaling | LinearRopeScaling | None]:
    """Return base and scaling of the rotations, those of layers that see all where kinds differ.

    Raises UnsupportedModel for other types, BadModelFile for values that cannot be.
    """
    rope: Mapping[str, Any] = config.rope_parameters
    rope = rope.get(_FULL) or rope
    kind = rope.get("rope_type", "default")
    theta = float(rope["rope_theta"])
    if kind == "default":
        return theta, None
    if kind == "linear":
        return theta, LinearRopeScaling(_factor(folder, rope))
    if kind != "llama3":
        raise _unsupported(folder, kind)
    return theta, Llama3RopeScaling(
        factor=float(rope["factor"]),
        low_freq_factor=float(rope["low_freq_factor"]),
        high_freq_factor=float(rope["high_freq_factor"]),
        original_context=int(rope["original_max_position_embeddings"]),
    )


def local_theta(folder: Path, config: Any) -> float | None:
    """Return the base in layers with a window; None where it is that of all layers.

    Raises UnsupportedModel where those layers scale their frequencies.
    """
    rope = config.rope_parameters.get(_LOCAL)
    if rope is None:
        return None
    if (kind := rope.get("rope_type", "default")) != "default":
        raise _unsupported(folder, f"{kind} in layers with a window")
    return float(rope["rope_theta"])


def _factor(folder: Path, rope: Mapping[str, Any]) -> float:
    factor = float(rope["factor"])
    if not 0 < factor < float("inf"):
        raise BadModelFile(
            f"{visible(str(folder))}: its config has the rope factor {factor}.",
            hint="The config is damaged: fetch the model again.",
        )
    return factor


def _unsupported(folder: Path, kind: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"{visible(str(folder))}: the rope type {visible(str(kind))} is not supported.",
        hint="The rope types default, linear and llama3 run.",
    )
