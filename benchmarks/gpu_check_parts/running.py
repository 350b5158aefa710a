"""Runs a check in processes of its own: what breaks or hangs in there ends there.

A fault of a GPU kernel spoils everything its process does afterwards, and an operator that hangs
does not come back. So a check has a process, or several, and is killed when its time is up; what it
told until then is kept.
"""

from __future__ import annotations

import importlib
import multiprocessing
import multiprocessing.connection
import os
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from gpu_check_parts.bench import Bench
from gpu_check_parts.checks import Check, Conditions
from gpu_check_parts.entries import Bar, Case, Entry, Fault, Skip

Outcome = Literal["passed", "failed", "stopped", "skipped"]
GRACE_S = 1.0
"""A check's own deadline comes a little before it is killed."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a check. `why` tells of one that was stopped or skipped."""

    check: Check
    outcome: Outcome
    entries: tuple[Entry, ...]
    took_s: float
    budget_s: float
    why: str = ""
    clocks: Mapping[str, Any] = field(default_factory=dict)


def run_apart(check: Check, *, budget_s: float, is_rehearsal: bool) -> Result:
    """Run a check in processes of its own and end them when the budget is spent."""
    started_s = time.monotonic()
    deadline_s = started_s + budget_s
    count = max(min(check.shards, (os.cpu_count() or 1) // 2), 1)
    context = multiprocessing.get_context("forkserver")
    # Importing torch takes seconds and touches no GPU: all checks begin with it imported.
    context.set_forkserver_preload(["torch"])
    shards: dict[Connection, BaseProcess] = {}
    for shard in range(count):
        receiver, sender = context.Pipe(duplex=False)
        conditions = Conditions(is_rehearsal, deadline_s - GRACE_S, shard, count)
        process: BaseProcess = context.Process(
            target=_child, args=(check, conditions, sender), daemon=True
        )
        process.start()
        sender.close()
        shards[receiver] = process
    entries = _gather(shards, deadline_s)
    is_stopped = bool(shards)
    for process in shards.values():
        process.kill()
        process.join()
    took_s = time.monotonic() - started_s
    return result_of(check, entries, took_s=took_s, budget_s=budget_s, is_stopped=is_stopped)


def run_here(check: Check, conditions: Conditions) -> Result:
    """Run a check in this process, for tests and for looking into one."""
    started_s = time.monotonic()
    entries = list(entries_of(check, conditions))
    took_s = time.monotonic() - started_s
    return result_of(check, entries, took_s=took_s, budget_s=conditions.deadline_s - started_s)


def result_of(
    check: Check,
    entries: list[Entry],
    *,
    took_s: float,
    budget_s: float,
    is_stopped: bool = False,
) -> Result:
    """Return a check's result: a bar it has not told of is told as one that was not reached."""
    told = {entry.name for entry in entries if isinstance(entry, Bar)}
    told |= {entry.what for entry in entries if isinstance(entry, Skip)}
    missing = [Skip(bar, "the check ended before it") for bar in check.bars if bar not in told]
    has_faults = any(
        isinstance(entry, Fault) or (isinstance(entry, Case) and not entry.is_ok)
        for entry in entries
    )
    outcome: Outcome = "stopped" if is_stopped else "failed" if has_faults else "passed"
    why = f"stopped when its {budget_s:.0f} s were spent" if is_stopped else ""
    return Result(check, outcome, (*entries, *missing), took_s, budget_s, why)


def entries_of(check: Check, conditions: Conditions) -> Iterator[Entry]:
    """Yield what a check tells; what it raises is a fault."""
    try:
        module = importlib.import_module(check.module)
        yield from module.run(Bench(conditions))
    except Exception as error:
        message = " ".join("".join(traceback.format_exception_only(error)).split())
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119 - a name only
        yield Fault(check.name, f"{message[:500]} ({where})")


def _gather(shards: dict[Connection, BaseProcess], deadline_s: float) -> list[Entry]:
    """Return what the processes tell until all have ended or the time is up.

    Those that have ended leave `shards`.
    """
    entries: list[Entry] = []
    while shards:
        left_s = deadline_s - time.monotonic()
        ready = multiprocessing.connection.wait(list(shards), timeout=max(left_s, 0))
        if not ready or left_s < -GRACE_S:
            return entries
        for connection in ready:
            assert isinstance(connection, Connection)
            try:
                entries.append(connection.recv())
            except EOFError:
                process = shards.pop(connection)
                process.join()
                if process.exitcode:
                    entries.append(Fault("its process", _ended(process.exitcode)))
    return entries


def _ended(status: int) -> str:
    return f"ended by signal {-status}" if status < 0 else f"ended with exit status {status}"


def _share_processors(shards: int) -> None:
    """Have torch compute references with this process's share of the processors, not with all."""
    import torch

    torch.set_num_threads(max((os.cpu_count() or 1) // shards, 1))


def _child(check: Check, conditions: Conditions, sender: Connection) -> None:
    if conditions.shards > 1:
        _share_processors(conditions.shards)
    for entry in entries_of(check, conditions):
        sender.send(entry)
    sender.close()
