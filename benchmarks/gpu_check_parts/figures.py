"""Figures out of the seconds of several runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_check_parts.entries import Figure
from gpu_check_parts.stopwatch import times_of

DEEPEST_FRAMES = 4
"""Of a fault's way, which is all that is left of it when the machine is gone."""


def milliseconds(name: str, seconds: Sequence[float], **told: Any) -> Figure:
    """Return a figure in milliseconds, the less the better; `told` are more of its fields."""
    return _figure(name, "ms", seconds, lambda each_s: each_s * 1e3, **told)


def per_second(name: str, unit: str, count: float, seconds: Sequence[float], **told: Any) -> Figure:
    """Return a figure of `count` things a second, where each run takes so many seconds."""
    return _figure(name, unit, seconds, lambda each_s: count / each_s, **told)


def _figure(
    name: str,
    unit: str,
    seconds: Sequence[float],
    number_of: Callable[[float], float],
    *,
    beside: Mapping[str, float] | None = None,
    facts: Mapping[str, float] | None = None,
    note: str = "",
) -> Figure:
    """Return what a number of seconds makes of their median and quartiles, the lower first."""
    times = times_of(seconds)
    low, high = sorted((number_of(times.low), number_of(times.high)))
    middle = number_of(times.median)
    return Figure(name, unit, middle, low, high, times.runs, beside or {}, facts or {}, note)


def many(sequences: int) -> str:
    """Return "1 sequence" or "8 sequences"."""
    return f"{sequences:,} sequence{'s' * (sequences != 1)}"


def first_line(error: Exception) -> str:
    """Return the kind of an error, what it says first, and the lines of code that led there."""
    lines = str(error).strip().splitlines() or [""]
    frames = traceback.extract_tb(error.__traceback__)[-DEEPEST_FRAMES:]
    way = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
    said = f"{type(error).__name__}: {lines[0][:200]}"
    return f"{said} ({way})" if way else said
