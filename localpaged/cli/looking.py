"""Looks at running programs for `localpaged stats`, and tells what it sees as text or JSON."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from localpaged.cli.errors import tell
from localpaged.cli.offline import Offline, offline_facts, past_runs
from localpaged.cli.runs_text import runs_text
from localpaged.cli.stats_look import Look
from localpaged.cli.stats_text import facts_text, snapshot_text
from localpaged.config_file import read_config
from localpaged.errors import EngineGone, StatsError
from localpaged.stats.protocol import VERSION
from localpaged.stats.reader import engine_sockets, open_engines
from localpaged.stats.schema import Snapshot, to_json

NONE_RUNS_EXIT_CODE = 3


@dataclass(slots=True)
class Seen:
    """What one look has found; `offline` when no program runs."""

    snapshots: list[Snapshot] = field(default_factory=list)
    failures: list[StatsError] = field(default_factory=list)
    offline: Offline | None = None


def run_stats(
    *, is_once: bool, is_json: bool, watch_s: float | None, is_ascii: bool, pid: int | None
) -> int:
    """Look once, again and again, or on a dashboard; return the exit code.

    Raises StatsError for a program that runs and cannot be read, where there is no other.
    """
    is_ascii = is_ascii or read_config().ui.ascii
    if not (is_once or is_json) and _is_terminal():
        shown = _dashboard(watch_s, is_ascii=is_ascii, pid=pid)
        if shown is not None:
            return shown
    next_s = time.monotonic()
    while True:
        seen = look(pid)
        if is_json:
            click.echo(json.dumps(record_of(seen), indent=None if watch_s else 2))
        else:
            _print_text(seen, Look.of_stdout(is_ascii=is_ascii))
        if not seen.snapshots:
            break
        if watch_s is None:
            return 0
        now_s = time.monotonic()
        next_s = max(next_s + watch_s, now_s)
        time.sleep(next_s - now_s)
        if not is_json:
            click.echo()
    if seen.failures:
        # each by its sentence; the last one is told by the border, which knows the exit code
        for failure in seen.failures[:-1]:
            tell(failure.message, hint=failure.hint)
        raise seen.failures[-1]
    _tell_none_runs(pid)
    return NONE_RUNS_EXIT_CODE


def run_history(num_runs: int, *, is_json: bool, is_ascii: bool) -> int:
    """Tell of past runs. Raises StoreError."""
    runs = past_runs(num_runs)
    is_ascii = is_ascii or read_config().ui.ascii
    if is_json:
        click.echo(json.dumps({"runs": [asdict(run) for run in runs]}, indent=2))
    elif runs:
        click.echo(runs_text(runs, Look.of_stdout(is_ascii=is_ascii)))
    else:
        click.echo("No run is in the history yet.", err=True)
    return 0


def look(pid: int | None) -> Seen:
    """Look at every running program, or at one alone."""
    seen = Seen()
    readers, failures = open_engines(pid)
    seen.failures += failures
    with ExitStack() as stack:
        for reader in readers:
            stack.enter_context(reader)
        for reader in readers:
            try:
                seen.snapshots.append(reader.snapshot())
            except EngineGone:
                continue
            except StatsError as error:
                seen.failures.append(error)
    if not seen.snapshots and not seen.failures:
        seen.offline = offline_facts()
    return seen


def record_of(seen: Seen) -> dict[str, Any]:
    """Return what was seen as JSON."""
    return {
        "schema_version": VERSION,
        "engines": [to_json(snapshot) for snapshot in seen.snapshots],
        "failures": [{"message": e.message, "hint": e.hint} for e in seen.failures],
        "offline": None if seen.offline is None else seen.offline.record(),
    }


def _print_text(seen: Seen, text: Look) -> None:
    for place, snapshot in enumerate(seen.snapshots):
        click.echo(("\n" if place else "") + snapshot_text(snapshot, text))
    if seen.snapshots:
        for failure in seen.failures:
            tell(failure.message, hint=failure.hint)
    if seen.offline is not None:
        click.echo(facts_text(seen.offline, text))


def _tell_none_runs(pid: int | None) -> None:
    what = "No localpaged runs" if pid is None else f"No localpaged runs as process {pid}"
    tell(f"{what}.", hint="`localpaged chat` starts one.")


def _is_terminal() -> bool:
    from localpaged.tui.terminal import can_place_cursor

    return sys.stdin.isatty() and sys.stdout.isatty() and can_place_cursor()


def _dashboard(watch_s: float | None, *, is_ascii: bool, pid: int | None) -> int | None:
    """Show the dashboard; None when there is nothing to show, which is told in words."""
    found = engine_sockets(pid)
    if not found:
        return None
    from localpaged.tui.stats.run import run_dashboard

    return run_dashboard(
        engine=found[-1].stem if pid is not None else None,
        interval_s=watch_s,
        is_ascii=is_ascii,
        theme=read_config().ui.theme,
    )
