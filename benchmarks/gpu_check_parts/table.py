"""The one table that the script prints: a line a comparison, figure, bar; and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_check_parts.entries import Bar, Fault, Figure, Skip
from gpu_check_parts.report import MEASURED, REHEARSED, cases_by_operator
from gpu_check_parts.running import Result

HEAD = ("check", "what", "figure", "beside", "verdict")
SHARE_UNITS = ("share",)


def table_of(results: Sequence[Result], machine: Mapping[str, Any], *, is_rehearsal: bool) -> str:
    """Return the table as Markdown, what it is of before it, what was left out behind it."""
    lines = [REHEARSED if is_rehearsal else MEASURED, _machine_line(machine), ""]
    lines += [_row(HEAD), _row(["---"] * len(HEAD))]
    for result in results:
        lines += [_row(cells) for cells in _lines_of(result)]
    skips = [
        f"- {result.check.title}: {skip.what}: {skip.why}"
        for result in results
        for skip in result.entries
        if isinstance(skip, Skip)
    ]
    if skips:
        lines += ["", "Left out:", *skips]
    return "\n".join(lines)


def number(value: float, unit: str) -> str:
    """Return a number as people read it."""
    if unit in SHARE_UNITS:
        return f"{value:.1%}"
    digits = 0 if abs(value) >= 1_000 else 1 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f} {unit}"


def _machine_line(machine: Mapping[str, Any]) -> str:
    told = [
        f"{machine.get('card') or 'no card'}",
        f"driver {machine.get('driver') or 'unknown'}",
        f"CUDA {machine.get('cuda') or 'none'}",
        *(f"{name} {machine.get(name)}" for name in ("torch", "triton", "transformers")),
        f"commit {str(machine.get('commit'))[:12]}"
        + (" with changes" if machine.get("has_changes") else ""),
    ]
    return ", ".join(told)


def _lines_of(result: Result) -> Iterator[list[str]]:
    took = f"{result.took_s:.0f} of {result.budget_s:.0f} s"
    heading = f"**{result.check.title}**"
    yield [heading, "", took if result.took_s else "", _clocks(result), _outcome(result)]
    for operator, cases in cases_by_operator(result).items():
        bad = [case for case in cases if not case.is_ok]
        worst = max(case.error for case in cases)
        verdict = f"{len(bad)} DISAGREE" if bad else "agree"
        yield ["", operator, f"{len(cases)} cases", f"{worst:.2f} of the tolerance", verdict]
    for entry in result.entries:
        if isinstance(entry, Figure):
            yield ["", entry.name, _spread(entry), _beside(entry), entry.note]
        elif isinstance(entry, Bar):
            yield ["", f"bar: {entry.name}", number(entry.got, entry.unit), *_judged(entry)]
        elif isinstance(entry, Fault):
            yield ["", entry.what, "", entry.why, "FAULT"]


def _clocks(result: Result) -> str:
    """Return the card's clocks at the end of a check, where they are known."""
    after = result.clocks.get("after", {})
    told = {name: after[name] for name in ("clocks.sm", "clocks.mem") if name in after}
    return ", ".join(f"{name.removeprefix('clocks.')} {value}" for name, value in told.items())


def _outcome(result: Result) -> str:
    if result.outcome == "passed":
        return "passed"
    return result.outcome.upper() + (f": {result.why}" if result.why else "")


def _judged(bar: Bar) -> list[str]:
    wanted = f"wanted {number(bar.wanted, bar.unit)}" + (f", {bar.note}" if bar.note else "")
    if bar.is_met is None:
        return [wanted, "not judged"]
    return [wanted, "met" if bar.is_met else "MISSED"]


def _spread(figure: Figure) -> str:
    low, high = number(figure.low, ""), number(figure.high, "")
    spread = "" if figure.runs == 1 else f" ({low.strip()} to {high.strip()})"
    return number(figure.median, figure.unit) + spread


def _beside(figure: Figure) -> str:
    told = [f"{name} {number(value, '').strip()}" for name, value in figure.beside.items()]
    told += [
        f"{value:.0%} {name}" if name.startswith("of ") else f"{number(value, name)}"
        for name, value in figure.facts.items()
    ]
    return ", ".join(told)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"
