"""Past runs as a table with bars: one line a run, the latest last."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from localpaged.cli.stats_text import Look, bar, duration
from localpaged.plain_text import visible
from localpaged.tui.figures import byte_size, grouped, percent

if TYPE_CHECKING:
    from localpaged.store.run_summaries import RunSummary

BAR_CELLS = 12
_HEADS = ("STARTED", "FOR", "WHAT", "REQUESTS", "GENERATED", "", "TOK/S", "", "FOUND", "PEAK KV")
_IS_NUMBER = (False, True, False, True, True, False, True, False, True, True)


def runs_text(runs: Sequence[RunSummary], look: Look) -> str:
    """Return the table; bars are in proportion to the largest of a column."""
    most = max((run.generated_tokens for run in runs), default=0)
    fastest = max(map(_speed, runs), default=0.0)
    rows = [_HEADS, *(_row(run, most, fastest, look) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    models = ["MODEL", *(visible(run.model) for run in runs)]
    return "\n".join(
        f"{_line(row, widths)}  {model}" for row, model in zip(rows, models, strict=True)
    )


def _row(run: RunSummary, most: int, fastest: float, look: Look) -> tuple[str, ...]:
    speed = _speed(run)
    return (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_at)),
        duration(run.last_at - run.started_at) + ("" if run.is_ended else "+"),
        visible(run.command),
        grouped(run.requests),
        grouped(run.generated_tokens),
        _bar(run.generated_tokens, most, look),
        f"{speed:.1f}",
        _bar(round(10 * speed), round(10 * fastest), look),
        percent(run.cached_prompt_tokens, run.prompt_tokens),
        byte_size(run.peak_held_blocks * run.bytes_per_block),
    )


def _bar(count: int, whole: int, look: Look) -> str:
    return bar([(look.active, count)], whole, BAR_CELLS)


def _speed(run: RunSummary) -> float:
    """Tokens generated for each second that the engine was at work."""
    return run.generated_tokens / run.busy_s if run.busy_s else 0.0


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (
        cell.rjust(width) if is_number else cell.ljust(width)
        for cell, width, is_number in zip(row, widths, _IS_NUMBER, strict=True)
    )
    return "  ".join(cells).rstrip()
