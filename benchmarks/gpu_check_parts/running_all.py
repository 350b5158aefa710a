"""Runs the checks one after the other in the time there is; what one leaves the next ones have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpu_check_parts.checks import Check
from gpu_check_parts.entries import Bar, Case, Fault, Skip
from gpu_check_parts.running import Result

LEAST_S = 5.0
"""A check that is given less is left out."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_BAR_MISSED = 3
EXIT_NO_GPU = 4

Run = Callable[[Check, float], Result]
"""Runs a check within so many seconds."""


def run_all(
    checks: Sequence[Check],
    run: Run,
    *,
    wanted: Sequence[str],
    total_s: float,
    clocks: Callable[[], dict[str, Any]],
) -> Iterator[Result]:
    """Yield the result of each check, in order; one that is not wanted or has no time is told, too.

    A check may take what the ones before it have left over, never what the later ones are given.
    """
    started_s = time.monotonic()
    for place, check in enumerate(checks):
        if check.name not in wanted:
            yield skipped(check, "not asked for")
            continue
        later_s = sum(other.budget_s for other in checks[place + 1 :] if other.name in wanted)
        left_s = total_s - (time.monotonic() - started_s)
        budget_s = max(left_s - later_s, min(check.budget_s, left_s))
        if budget_s < min(LEAST_S, check.budget_s):
            yield skipped(check, f"{max(left_s, 0):.0f} s of {total_s:.0f} were left")
            continue
        before = clocks()
        result = run(check, budget_s)
        yield replace(result, clocks={"before": before, "after": clocks()})


def skipped(check: Check, why: str) -> Result:
    """Return the result of a check that did not run."""
    bars = tuple(Skip(bar, why) for bar in check.bars)
    return Result(check, "skipped", bars, 0.0, 0.0, why)


def faults_of(results: Sequence[Result]) -> list[str]:
    """Return a line for everything that is not as it must be, bars apart."""
    lines = []
    for result in results:
        title = result.check.title
        if result.outcome == "stopped":
            lines.append(f"{title}: {result.why}")
        for entry in result.entries:
            if isinstance(entry, Fault):
                lines.append(f"{title}: {entry.what}: {entry.why}")
            elif isinstance(entry, Case) and not entry.is_ok:
                lines.append(
                    f"{title}: {entry.operator}, {entry.name}: {entry.error:.3g} times the "
                    "tolerance from its reference"
                )
    return lines


def missed_bars(results: Sequence[Result]) -> list[Bar]:
    """Return the bars that are not met."""
    return [
        entry
        for result in results
        for entry in result.entries
        if isinstance(entry, Bar) and entry.is_met is False
    ]


def exit_status(results: Sequence[Result]) -> int:
    """Return 1 when a check failed or was stopped, 3 when only bars were missed, else 0."""
    if faults_of(results):
        return EXIT_FAILED
    return EXIT_BAR_MISSED if missed_bars(results) else EXIT_OK
