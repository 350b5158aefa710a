"""What compiled steps bring on processors of three kinds, beside torch's operators on the same.

    python benchmarks/processor_forms.py [--rounds 3] [--out FILE.json]

Each figure comes from a process of its own in which numba, torch and oneDNN are told to leave out
what the processor in question has not. So it is this machine that is measured, with another one's
instructions: ratios say something, tokens a second of another machine will be others.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from llvmlite.binding import get_host_cpu_features

BEYOND_AVX2 = ("avx512", "amx", "avx10", "avxvnni")
TORCH_AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
WAYS = ("int4", "int8", "operators")
"""The compiled step's two forms, and torch's operators."""

CHATS = (1, 4, 16)
PROMPT_TOKENS = 256
STEPS = 32


def processors() -> dict[str, dict[str, str]]:
    """Return the variables that make each processor, by its name; those that this one can be."""
    host = get_host_cpu_features()
    least = [f"+{name}" for name, has in host.items() if has and not name.startswith(BEYOND_AVX2)]

    def numba(*more: str) -> dict[str, str]:
        return {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ",".join([*least, *more])}

    known = {
        "avx512vnni": ("AVX-512 VNNI", {}),
        "avxvnni": (
            "AVX-VNNI",
            numba("+avxvnni") | TORCH_AVX2 | {"ONEDNN_MAX_CPU_ISA": "AVX2_VNNI"},
        ),
        "avx2": ("AVX2", numba() | TORCH_AVX2 | {"ONEDNN_MAX_CPU_ISA": "AVX2"}),
    }
    return {name: variables for feature, (name, variables) in known.items() if host.get(feature)}


def measure(way: str) -> dict[str, float]:
    """Return tokens a second of the default model: read, and written for 1, 4 and 16 chats."""
    import torch

    from localpaged.config import Settings
    from localpaged.engine.eight_bit import INSTRUCTIONS
    from localpaged.engine.params import Request, SamplingParams
    from localpaged.engine_factory import load_core
    from localpaged.models.catalogue import DEFAULT_MODEL
    from localpaged.models.open_model import open_model

    if way == "operators":
        abilities = {k: v for k, v in torch.cpu.get_capabilities().items() if k not in INSTRUCTIONS}
        torch.cpu.get_capabilities = lambda: abilities
    dtype = "auto" if way == "operators" else way
    opened = open_model(DEFAULT_MODEL)
    core, ready = load_core(
        lambda: opened, Settings(model=DEFAULT_MODEL, dtype=dtype), lambda event: None
    )
    assert way in (ready.dtype, "operators"), ready
    source = random.Random(0)
    sampling = SamplingParams(temperature=0, ignore_eos=True)
    rates: dict[str, float] = {}

    def tell(count: int, name: str) -> float:
        for i in range(count):
            prompt = tuple(source.randrange(5, 49_000) for _ in range(PROMPT_TOKENS))
            assert not core.submit(Request(f"{name} {i}", prompt, sampling, speculation=False))
        started_s = time.perf_counter()
        while any(not sequence.num_generated for sequence in core.scheduler.sequences):
            core.step()
        return count * PROMPT_TOKENS / (time.perf_counter() - started_s)

    def end(count: int, name: str) -> None:
        for i in range(count):
            core.cancel(f"{name} {i}")

    tell(1, "warm")
    end(1, "warm")
    for count in CHATS:
        rates["read"] = tell(count, f"{count}")
        started_s = time.perf_counter()
        for _ in range(STEPS):
            core.step()
        rates[f"{count}"] = count * STEPS / (time.perf_counter() - started_s)
        end(count, f"{count}")
    return rates


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/processor-forms.json"))
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    kinds = ["read", *map(str, CHATS)]
    report: dict[str, Any] = {}
    print(f"| processor | form | read | {' | '.join(f'chats: {n}' for n in CHATS)} |")
    print("|---|---|---|---|---|---|")
    for name, variables in processors().items():
        known: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(arguments.rounds):
            for way in WAYS:
                command = [sys.executable, __file__, "--measure", way]
                done = subprocess.run(
                    command, env=os.environ | variables, stdout=subprocess.PIPE, check=True
                )
                known[way].append(json.loads(done.stdout))
        report[name] = {
            way: {kind: round(statistics.median(r[kind] for r in runs), 1) for kind in kinds}
            for way, runs in known.items()
        }
        for way, rates in report[name].items():
            print(f"| {name} | {way} | {' | '.join(f'{rates[kind]:,.0f}' for kind in kinds)} |")
        for way in WAYS[:-1]:
            ratios = [report[name][way][k] / report[name][WAYS[-1]][k] for k in kinds]
            told = " | ".join(f"×{ratio:.2f}" for ratio in ratios)
            print(f"| | {way} / {WAYS[-1]} | {told} |", flush=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
