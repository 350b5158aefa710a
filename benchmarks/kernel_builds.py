"""Compiles every Triton kernel for every card, without one, and keeps a table of what each takes.

`make kernels` builds all and compares with docs/kernel-builds.md; `--write` writes that file anew.
`--json NAME@ARCHITECTURE ...` prints those builds alone, one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kernel_cases import CASES
from localpaged_kernels.ahead import ARCHITECTURES, SHARED_LIMIT_BYTES, Build, compile_ahead

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "kernel-builds.md"
HEAD = """# What each kernel takes of a card

Compiled ahead of time for six architectures by Triton {version}: registers of a thread and bytes of
shared memory of a program, `registers / shared`. Nothing is spilled. `make kernels` builds all of
them anew and compares; `python benchmarks/kernel_builds.py --write` writes this file. What the
kernels do: [kernels.md](kernels.md).

"""

Key = tuple[str, int]


def build(key: Key) -> tuple[Key, list[Build]]:
    """Compile one case for one architecture: a build for each launch."""
    name, architecture = key
    return key, [compile_ahead(launch, architecture) for launch in CASES[name](architecture)]


def read_table(text: str) -> tuple[str, dict[Key, str]]:
    """Return the version of Triton and the cells of a table by case and architecture."""
    version = re.search(r"by Triton ([\d.]+):", text)
    if version is None:
        raise ValueError(f"{TABLE} does not tell the version of Triton")
    cells: dict[Key, str] = {}
    for name, row in re.findall(r"^\| ([^|]+?) \| (\d.*) \|$", text, re.MULTILINE):
        for architecture, cell in zip(ARCHITECTURES, row.split(" | "), strict=True):
            cells[name, architecture] = cell
    return version[1], cells


def cell_of(builds: Sequence[Build]) -> str:
    """Return what the table says of a case's launches."""
    return " + ".join(f"{made.registers} / {made.shared_bytes}" for made in builds)


def faults(key: Key, builds: Sequence[Build]) -> list[str]:
    """Return what must not be, whatever the table says."""
    limit = SHARED_LIMIT_BYTES[key[1]]
    return [
        f"{key[0]} on sm_{key[1]}: {asdict(made)}, at most {limit} bytes of shared memory"
        for made in builds
        if made.spilled_bytes or made.shared_bytes > limit
    ]


def _write(made: dict[Key, list[Build]], version: str) -> None:
    lines = ["| kernel | " + " | ".join(f"sm_{a}" for a in ARCHITECTURES) + " |"]
    lines.append("|---" * (len(ARCHITECTURES) + 1) + "|")
    for name in CASES:
        cells = " | ".join(cell_of(made[name, architecture]) for architecture in ARCHITECTURES)
        lines.append(f"| {name} | {cells} |")
    TABLE.write_text(HEAD.format(version=version) + "\n".join(lines) + "\n")


def _compare(made: dict[Key, list[Build]], version: str) -> list[str]:
    told_version, told = read_table(TABLE.read_text())
    if told_version != version:
        print(f"The table is of Triton {told_version}, this is {version}: registers not compared.")
        return []
    return [
        f"{name} on sm_{architecture}: {cell_of(builds)}, the table says "
        f"{told.get((name, architecture), 'nothing')}"
        for (name, architecture), builds in made.items()
        if told.get((name, architecture)) != cell_of(builds)
    ]


def main() -> int:
    """Build what is asked for; exit status 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table anew")
    parser.add_argument("--json", nargs="+", metavar="NAME@ARCHITECTURE", default=[])
    args = parser.parse_args()
    os.environ["TRITON_INTERPRET"] = "0"
    import triton

    if args.json:
        for wanted in args.json:
            name, architecture = wanted.rsplit("@", 1)
            key, builds = build((name, int(architecture)))
            print(json.dumps({"key": key, "builds": [asdict(made) for made in builds]}))
        return 0
    keys = [(name, architecture) for architecture in ARCHITECTURES for name in CASES]
    with multiprocessing.get_context("spawn").Pool() as pool:
        made = dict(pool.imap_unordered(build, keys, chunksize=4))
    found = [fault for key in keys for fault in faults(key, made[key])]
    if not args.write:
        found += _compare(made, triton.__version__)
    elif not found:
        _write(made, triton.__version__)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(keys)} builds, {len(found)} faults.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
