"""Proves localpaged on an NVIDIA GPU in under four minutes: correctness first, then speed.

    python benchmarks/gpu_check.py [--out FILE.json] [--only NAME ...] [--commit HASH]
    python benchmarks/gpu_check.py --rehearse      the same code, tiny, on a CPU; measures nothing

No network and no model file: weights are random, shapes those of Qwen3 8B, 4B and 0.6B. Each check
runs in a process of its own with a budget of seconds, so that one that fails, crashes or hangs
leaves the others running. Prints one table, writes JSON. Exit status: 0 all well, 1 a check failed
or ran over its budget, 2 wrong usage, 3 only a bar was missed, 4 no GPU. docs/gpu.md tells more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpu_check_parts import machine as machine_facts
from gpu_check_parts.checks import CHECKS, MACHINE, TOTAL_S, Check
from gpu_check_parts.entries import Machine
from gpu_check_parts.report import report_of
from gpu_check_parts.running import Result, run_apart
from gpu_check_parts.running_all import (
    EXIT_NO_GPU,
    exit_status,
    faults_of,
    missed_bars,
    run_all,
)
from gpu_check_parts.table import table_of

RESULTS = Path(__file__).parent / "results"
REHEARSAL_FACTOR = 6
"""The interpreter takes its time: budgets in a rehearsal are so many times those of a GPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks, print the table, write JSON; return the exit status."""
    options = _options(arguments)
    os.environ["TRITON_INTERPRET"] = "1" if options.rehearse else "0"
    # Looking for a device must not initialise it: processes are forked from one that looked.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    started_s = time.monotonic()
    factor = REHEARSAL_FACTOR if options.rehearse else 1
    run = partial(_run, is_rehearsal=options.rehearse, factor=factor)
    first = run(MACHINE, MACHINE.budget_s)
    machine = {**machine_facts.software(), "driver": machine_facts.driver(), **_machine(first)}
    machine["commit"] = machine["commit"] or options.commit
    path = options.out or _name(machine, is_rehearsal=options.rehearse)
    results = [first]

    def write(*, is_whole: bool) -> str:
        took_s = time.monotonic() - started_s
        table = table_of(results, machine, is_rehearsal=options.rehearse)
        report = report_of(
            results, machine, is_rehearsal=options.rehearse, took_s=took_s, is_whole=is_whole
        )
        _write(report, table, path)
        return table

    is_usable = not faults_of(results)
    if is_usable:
        for result in run_all(
            CHECKS,
            run,
            wanted=options.only,
            total_s=TOTAL_S - (time.monotonic() - started_s) / factor,
            clocks=machine_facts.clocks,
        ):
            print(f"{result.check.title}: {result.outcome}, {result.took_s:.0f} s", file=sys.stderr)
            results.append(result)
            write(is_whole=False)  # whoever ends this script keeps what it has found out
    print(write(is_whole=True))
    if path is not None:
        print(f"\nwritten to {path} and {path.with_suffix('.md').name}")
    _tell(results)
    return exit_status(results) if is_usable else EXIT_NO_GPU


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [check.name for check in CHECKS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rehearse", action="store_true", help="tiny, on a CPU, nothing measured")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME",
                        help=f"run only these: {', '.join(names)}")  # fmt: skip
    parser.add_argument("--out", type=Path, help="where the JSON goes; else benchmarks/results/")
    parser.add_argument("--commit", help="what is run, where git does not tell")
    return parser.parse_args(arguments)


def _run(check: Check, budget_s: float, *, is_rehearsal: bool, factor: float) -> Result:
    return run_apart(check, budget_s=budget_s * factor, is_rehearsal=is_rehearsal)


def _machine(result: Result) -> Mapping[str, Any]:
    return next((dict(e.facts) for e in result.entries if isinstance(e, Machine)), {})


def _name(machine: Mapping[str, Any], *, is_rehearsal: bool) -> Path | None:
    """Return where a measurement is kept: named by the card and the commit; a rehearsal nowhere."""
    if is_rehearsal or not machine.get("card"):
        return None
    card = re.sub(r"[^a-z0-9]+", "-", str(machine["card"]).lower()).strip("-")
    return RESULTS / f"gpu-{card}-{str(machine.get('commit'))[:7]}.json"


def _write(report: Mapping[str, Any], table: str, path: Path | None) -> None:
    """Write the JSON and, beside it, the table, in the place of what was written before."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    for place, text in (
        (path, json.dumps(report, indent=2, allow_nan=False)),
        (path.with_suffix(".md"), table),
    ):
        unfinished = place.with_name(place.name + ".part")
        unfinished.write_text(text + "\n")
        unfinished.replace(place)


def _tell(results: Sequence[Result]) -> None:
    """Say which check and which bar is not as it must be."""
    lines = faults_of(results)
    lines += [f"bar missed: {bar.name}: {bar.got:.3g} {bar.unit}" for bar in missed_bars(results)]
    if lines:
        print("\nNot as it must be:", *(f"- {line}" for line in lines), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
