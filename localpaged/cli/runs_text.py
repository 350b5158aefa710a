"""Past runs as a table with bars: one line a run, the latest last."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from localpaged.cli.stats_look import Look, bar, duration
from localpaged.plain_text import visible
from localpaged.tui.figures import byte_size, grouped, percent

if TYPE_CHECKING:
    from localpaged.store.run_summaries import RunSummary

WIDE_BAR, NARROW_BAR = 12, 6
_AS_TEXT = frozenset({"STARTED", "WHAT", "", "MODEL"})
_GIVEN_UP = ("PEAK KV", "REQUESTS", "FOR", "FOUND", "MODEL")
"""What a terminal that is too narrow does without, the first of them first."""

Column = tuple[str, Sequence[str]]
"""A head and what is below it; bars have none."""


def runs_text(runs: Sequence[RunSummary], look: Look) -> str:
    """Return the table; bars are in proportion to the largest of a column."""
    lines = _lines(_columns(runs, look, bar_cells=WIDE_BAR))
    columns = _columns(runs, look, bar_cells=NARROW_BAR)
    for given_up in (None, *_GIVEN_UP):
        if max(map(cell_len, lines)) <= look.columns:
            break
        columns = [column for column in columns if column[0] != given_up]
        lines = _lines(columns)
    return "\n".join(lines)


def _columns(runs: Sequence[RunSummary], look: Look, *, bar_cells: int) -> list[Column]:
    def bars(amounts: Sequence[float]) -> Sequence[str]:
        most = round(10 * max(amounts, default=0.0))
        return [bar([(look.active, round(10 * amount))], most, bar_cells) for amount in amounts]

    speeds = [run.generated_tokens / run.busy_s if run.busy_s else 0.0 for run in runs]
    return [
        ("STARTED", [_minute(run.started_at) for run in runs]),
        ("FOR", [_length(run) for run in runs]),
        ("WHAT", [visible(run.command) for run in runs]),
        ("REQUESTS", [grouped(run.requests) for run in runs]),
        ("GENERATED", [grouped(run.generated_tokens) for run in runs]),
        ("", bars([run.generated_tokens for run in runs])),
        ("TOK/S", [f"{speed:.1f}" for speed in speeds]),
        ("", bars(speeds)),
        ("FOUND", [percent(run.cached_prompt_tokens, run.prompt_tokens) for run in runs]),
        ("PEAK KV", [byte_size(run.peak_held_blocks * run.bytes_per_block) for run in runs]),
        ("MODEL", [visible(run.model) for run in runs]),
    ]


def _lines(columns: Sequence[Column]) -> list[str]:
    told = [[head, *cells] for head, cells in columns]
    widths = [max(map(cell_len, cells)) for cells in told]
    is_text = [head in _AS_TEXT for head, _ in columns]
    rows = zip(*told, strict=True)
    return ["  ".join(map(_aligned, row, widths, is_text)).rstrip() for row in rows]


def _aligned(cell: str, width: int, is_text: bool) -> str:
    blanks = " " * (width - cell_len(cell))
    return cell + blanks if is_text else blanks + cell


def _minute(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _length(run: RunSummary) -> str:
    return duration(run.last_at - run.started_at) + ("" if run.is_ended else "+")
