"""Figures out of the seconds of several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_check_parts.entries import Figure
from gpu_check_parts.stopwatch import times_of


def milliseconds(
    name: str,
    seconds: Sequence[float],
    *,
    beside: Mapping[str, float] | None = None,
    facts: Mapping[str, float] | None = None,
    note: str = "",
) -> Figure:
    """Return a figure in milliseconds, the less the better."""
    times = times_of(seconds)
    return Figure(
        name,
        "ms",
        times.median * 1e3,
        times.low * 1e3,
        times.high * 1e3,
        times.runs,
        beside or {},
        facts or {},
        note,
    )


def per_second(
    name: str,
    unit: str,
    count: float,
    seconds: Sequence[float],
    *,
    beside: Mapping[str, float] | None = None,
    facts: Mapping[str, float] | None = None,
    note: str = "",
) -> Figure:
    """Return a figure of `count` things a second, where each run takes so many seconds."""
    times = times_of(seconds)
    return Figure(
        name,
        unit,
        count / times.median,
        count / times.high,
        count / times.low,
        times.runs,
        beside or {},
        facts or {},
        note,
    )


def many(sequences: int) -> str:
    """Return "1 sequence" or "8 sequences"."""
    return f"{sequences:,} sequence{'s' * (sequences != 1)}"


def first_line(error: Exception) -> str:
    """Return the kind of an error and what it says first."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
