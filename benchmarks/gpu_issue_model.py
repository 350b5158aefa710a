"""A model, not a measurement: the cycles that a kernel's loop takes by its own machine code.

    python benchmarks/gpu_issue_model.py [NAME@ARCHITECTURE ...]

NVIDIA's instructions carry how long the next one waits (a number of cycles, or six counters that
slow ones release). This follows the loop that copies K and V, or a matrix, as one of a processor's
four schedulers would: one instruction a cycle, of whichever program is ready, none before what it
waits for. How long slow instructions take is assumed (`LATENCY`), memory is never waited for. What
comes out is how fast a processor could go through tiles if memory were.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernel_cases import CASES

COUNTERS = 6
PASSES = 12
"""Times that the loop is followed; the second half is told."""

LATENCY = {"LDSM": 33, "LDS": 30, "SHFL": 24, "MUFU": 24, "STS": 20, "STSM": 24, "LDGSTS": 40}
OTHER_LATENCY = 20
READ_LATENCY = 12
"""Until an instruction has read what it is given, where somebody waits to overwrite that."""

BARRIER = 22
"""Cycles until all warps of a program have met; they run alike."""

PIPES = {
    "HMMA": ("tensor", 8),
    "MUFU": ("special", 8),
    **dict.fromkeys(("STS", "STSM", "SHFL"), ("shared", 8)),
    **dict.fromkeys(("IADD3", "LEA", "LOP3", "SHF", "SEL", "ISETP", "IMAD", "IADD"), ("whole", 2)),
}
"""What an instruction occupies, and for how many cycles of a scheduler."""

READERS = ("LDS", "LDSM", "LDGSTS")
WIDE_CYCLES = {"128": 16, "64": 8, "4": 16, "2": 8}
NARROW_CYCLES = 4
"""Shared memory gives 128 bytes a cycle to all four schedulers: what reads of it or copies into it
take, by the width that their names end with."""

SHOWN = (
    "decode, bf16, 32/8 of 128, 16 parts, last merges@90",
    "decode, bf16, 32/8 of 128, 16 parts, last merges@89",
    "decode, bf16, 32/8 of 128, 16 parts, last merges@120",
    "decode, bf16 on int8, 32/8 of 128@90",
    "a row's gate and up, bf16, norm@90",
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: cycles until the next may follow, counters it holds and waits for.

    For so many cycles it keeps its `pipe` busy.
    """

    name: str
    pipe: str
    busy: int
    stall: int
    holds_until_written: int | None
    holds_until_read: int | None
    waits: tuple[int, ...]


@dataclass(slots=True)
class _Warp:
    """Where a program's warp is, and until when its counters are held."""

    place: int = 0
    ready: int = 0
    held: list[int] = field(default_factory=lambda: [0] * COUNTERS)
    ends: list[int] = field(default_factory=list)


def loops_of(listing: str) -> list[tuple[Instruction, ...]]:
    """Return the loops of a disassembled kernel that copy from memory ahead, in its order."""
    instructions: list[Instruction] = []
    texts: list[str] = []
    labels: dict[str, int] = {}
    for line in listing.splitlines():
        if found := re.match(r"\s*(\.L_x_\d+):", line):
            labels[found[1]] = len(instructions)
        elif found := re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?);\s*/\* 0x[0-9a-f]+ \*/", line):
            texts.append(found[1])
        elif found := re.match(r"\s*/\* 0x([0-9a-f]+) \*/", line):
            instructions.append(_instruction(texts[-1], int(found[1], 16)))
    loops = []
    for place, text in enumerate(texts):
        target = re.search(r"\bBRA\b.*?(\.L_x_\d+)", text)
        begin = labels.get(target[1], place) if target else place
        loop = tuple(instructions[begin : place + 1])
        if len(loop) > 1 and any(one.name == "LDGSTS" for one in loop):
            loops.append(loop)
    return loops


def _instruction(text: str, upper_word: int) -> Instruction:
    name, *modifiers = re.sub(r"^@!?U?P\w+\s+", "", text.strip()).split()[0].split(".")
    pipe, busy = PIPES.get(name, ("", 0))
    if name in READERS:
        width = modifiers[-1] if modifiers else ""
        pipe, busy = "shared", WIDE_CYCLES.get(width, NARROW_CYCLES)
    control = upper_word >> 41
    written, read = (control >> 5) & 7, (control >> 8) & 7
    return Instruction(
        name,
        pipe,
        busy,
        max(control & 15, 1),
        written if written < COUNTERS else None,
        read if read < COUNTERS else None,
        tuple(counter for counter in range(COUNTERS) if control >> 11 + counter & 1),
    )


def cycles_a_pass(loop: Sequence[Instruction], programs: int) -> float:
    """Return the cycles in which each of so many programs goes through the loop once.

    A program has one warp on each scheduler.
    """
    warps = [_Warp(ready=37 * number) for number in range(programs)]  # they do not begin at once
    free_at: dict[str, int] = {}
    time, first = 0, 0
    while any(len(warp.ends) < PASSES for warp in warps):
        order = [warps[(first + number) % programs] for number in range(programs)]
        for number, warp in enumerate(order):
            if _may_issue(warp, loop[warp.place], time, free_at):
                _issue(warp, loop, time, free_at)
                first = (first + number) % programs
                break
        time += 1
    half = PASSES // 2
    return max((warp.ends[-1] - warp.ends[half - 1]) / half for warp in warps)


def _may_issue(warp: _Warp, one: Instruction, time: int, free_at: dict[str, int]) -> bool:
    if len(warp.ends) >= PASSES or warp.ready > time:
        return False
    return free_at.get(one.pipe, 0) <= time and all(warp.held[w] <= time for w in one.waits)


def _issue(warp: _Warp, loop: Sequence[Instruction], time: int, free_at: dict[str, int]) -> None:
    one = loop[warp.place]
    if one.busy:
        free_at[one.pipe] = time + one.busy
    for counter, latency in (
        (one.holds_until_written, LATENCY.get(one.name, OTHER_LATENCY)),
        (one.holds_until_read, READ_LATENCY),
    ):
        if counter is not None:
            warp.held[counter] = max(warp.held[counter], time + latency)
    warp.ready = time + one.stall + BARRIER * (one.name == "BAR")
    warp.place += 1
    if warp.place == len(loop):
        warp.place = 0
        warp.ends.append(time)


def loop_of(name: str, architecture: int) -> tuple[Instruction, ...]:
    """Compile a case and return the loop of its first launch."""
    from localpaged_kernels.ahead import machine_code

    return loops_of(machine_code(CASES[name](architecture)[0], architecture))[0]


def main() -> int:
    """Print instructions and cycles of loops."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loops", nargs="*", metavar="NAME@ARCHITECTURE", default=SHOWN)
    os.environ["TRITON_INTERPRET"] = "0"
    print("A MODEL, NOT A MEASUREMENT\n\n| loop | instructions | cycles, 1 to 4 programs |")
    print("|---|---|---|")
    for wanted in parser.parse_args().loops:
        name, architecture = wanted.rsplit("@", 1)
        loop = loop_of(name, int(architecture))
        cycles = ", ".join(f"{cycles_a_pass(loop, count):,.0f}" for count in (1, 2, 3, 4))
        print(f"| {name}, sm_{architecture} | {len(loop)} | {cycles} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
