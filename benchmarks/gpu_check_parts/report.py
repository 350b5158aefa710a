"""The results as JSON: everything that was measured, judged, left out or wrong, and on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from gpu_check_parts.entries import Bar, Case, Fault, Figure, Skip
from gpu_check_parts.running import Result
from gpu_check_parts.running_all import exit_status

FORMAT = 1
MEASURED = "measured on the card that is named here"
REHEARSED = (
    "REHEARSAL: tiny shapes on a CPU under Triton's interpreter; its times say nothing about a GPU"
)


def report_of(
    results: Sequence[Result],
    machine: Mapping[str, Any],
    *,
    is_rehearsal: bool,
    took_s: float,
    is_whole: bool = True,
) -> dict[str, Any]:
    """Return everything as plain values, in a form that `FORMAT` numbers.

    Without `is_whole` more checks were to come.
    """
    return {
        "format": FORMAT,
        "kind": "rehearsal" if is_rehearsal else "measurement",
        "label": REHEARSED if is_rehearsal else MEASURED,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 1),
        "is_whole": is_whole,
        "exit_status": exit_status(results),
        "machine": dict(machine),
        "checks": [_check(result) for result in results],
    }


def cases_by_operator(result: Result) -> dict[str, list[Case]]:
    """Return a check's comparisons by operator."""
    by_operator: dict[str, list[Case]] = {}
    for entry in result.entries:
        if isinstance(entry, Case):
            by_operator.setdefault(entry.operator, []).append(entry)
    return dict(sorted(by_operator.items()))


def _check(result: Result) -> dict[str, Any]:
    entries = result.entries
    return {
        "name": result.check.name,
        "title": result.check.title,
        "outcome": result.outcome,
        "why": result.why,
        "budget_s": round(result.budget_s, 1),
        "took_s": round(result.took_s, 1),
        "comparisons": [
            _comparison(name, cases) for name, cases in cases_by_operator(result).items()
        ],
        "figures": [_rounded(asdict(e)) for e in entries if isinstance(e, Figure)],
        "bars": [_rounded(asdict(e)) for e in entries if isinstance(e, Bar)],
        "skipped": [asdict(e) for e in entries if isinstance(e, Skip)],
        "faults": [asdict(e) for e in entries if isinstance(e, Fault)],
        "clocks": dict(result.clocks),
    }


def _comparison(operator: str, cases: list[Case]) -> dict[str, Any]:
    worst = max(cases, key=lambda case: (not case.is_ok, case.error))
    return {
        "operator": operator,
        "cases": len(cases),
        "disagreeing": [case.name for case in cases if not case.is_ok],
        "worst": worst.name,
        "worst_error_of_tolerance": _short(worst.error),
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _short(value)
        if isinstance(value, float)
        else _rounded(value)
        if isinstance(value, dict)
        else value
        for name, value in values.items()
    }


def _short(number: float) -> float | str:
    """Return five digits of a number; JSON has none for what is not one."""
    return float(f"{number:.5g}") if number - number == 0 else str(number)
