"""`localpaged stats`: its arguments and what its help says; `looking` does it."""

from __future__ import annotations

import math
from typing import Any

import click

NUM_RUNS = 30
MIN_INTERVAL_S = 0.1
MAX_INTERVAL_S = 86_400.0


class Interval(click.FloatRange):
    """Seconds between two looks."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse what is no number, which no comparison refuses."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


@click.command(short_help="Show memory, speed and chats of running programs.")
@click.option("--once", "-1", "is_once", is_flag=True, help="Print text once, and exit.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object instead of text.")
@click.option(
    "--watch",
    "watch_s",
    type=Interval(min=MIN_INTERVAL_S, max=MAX_INTERVAL_S),
    metavar="SECONDS",
    help="Repeat at this interval; with --json one line each time.",
)
@click.option("--ascii", "is_ascii", is_flag=True, help="Print ASCII characters only.")
@click.option("--pid", type=click.IntRange(1), help="Show this program only.")
@click.option("--history", "is_history", is_flag=True, help="Show past runs instead.")
@click.option(
    "--runs",
    "num_runs",
    type=click.IntRange(1),
    metavar="N",
    help=f"With --history: how many, the latest last; {NUM_RUNS}.",
)
def stats(**options: Any) -> int:
    """Show what running localpaged programs do: KV memory, speed, chats.

    On a terminal, without --once and --json, opens a dashboard. It only looks, and works from any
    terminal of the same user.

    \b
    Exit codes:
      0    shown
      1    a program runs that cannot be read: it does not answer, or is of another version
      2    wrong use
      3    none runs; what is known without one is shown
      6    the history cannot be read
      130  interrupted with Ctrl+C
      141  the reader of stdout went away

    \b
    The object of --json (docs/stats.md defines every number):
      schema_version   changes before the dot when a meaning changes
      engines          a snapshot of each running program, the oldest first
      failures         message and hint for each that cannot be read
      offline          null while one runs; else database, database_bytes,
                       chats, messages, kv_disk_bytes, models, last_run,
                       error
    With --history: runs, the oldest first.
    """
    from localpaged.cli.looking import run_history, run_stats

    if options["is_history"]:
        if options["watch_s"] or options["pid"] or options["is_once"]:
            raise click.UsageError("--history shows past runs: it goes with --json and --ascii.")
        return run_history(
            options["num_runs"] or NUM_RUNS,
            is_json=options["is_json"],
            is_ascii=options["is_ascii"],
        )
    if options["num_runs"]:
        raise click.UsageError("--runs says how many past runs are shown: it goes with --history.")
    if options["is_once"] and options["watch_s"]:
        raise click.UsageError("--once looks once, --watch again and again: use one of the two.")
    return run_stats(
        is_once=options["is_once"],
        is_json=options["is_json"],
        watch_s=options["watch_s"],
        is_ascii=options["is_ascii"],
        pid=options["pid"],
    )
