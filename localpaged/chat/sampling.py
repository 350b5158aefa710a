"""Sampling parameters as a turn keeps them: JSON, so that a later version may know more of them."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, fields, replace

from localpaged.chat.sampling_options import as_dry
from localpaged.engine.params import Grammar, SamplingParams

_MAX_SEED = 2**63


def with_seed(sampling: SamplingParams) -> SamplingParams:
    """Choose the seed if it is free: the turn's row then tells how to get the answer again."""
    if sampling.seed is not None:
        return sampling
    return replace(sampling, seed=secrets.randbelow(_MAX_SEED))


def may_be_guessed(sampling: SamplingParams) -> bool:
    """Whether tokens may be guessed and checked together: not where a seed was asked for.

    Tokens that are checked together are rounded otherwise than one by one, and when guessing pays
    is a matter of the clock: the same seed would give one text today and another tomorrow.
    """
    return sampling.seed is None


def to_options(sampling: SamplingParams) -> str:
    """Return the parameters as JSON."""
    return json.dumps(asdict(sampling))


def from_options(options: str) -> SamplingParams:
    """Return what a turn was made with, but for its seed; unknown parameters are left out."""
    known = {field.name for field in fields(SamplingParams)}
    values = {name: value for name, value in json.loads(options).items() if name in known}
    for name in ("stop", "stop_token_ids"):
        values[name] = tuple(values.get(name, ()))
    values["logit_bias"] = tuple(map(tuple, values.get("logit_bias", ())))
    if values.get("dry") is not None:
        values["dry"] = as_dry(values["dry"])
    if values.get("grammar") is not None:
        values["grammar"] = Grammar(**values["grammar"])
    return SamplingParams(**{**values, "seed": None})
