"""Many chats behind one long prompt: what it brings that they attend to it together.

    python benchmarks/shared_prompt.py [--chats 16] [--repeats 3] [--out FILE.json]

The same chats decode with cascade attention and without it, in turn and in one process. The best
run of each counts; only ratios are worth quoting, because machines differ and are shared.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localpaged.config import Settings
from localpaged.engine.core import EngineCore
from localpaged.engine.params import Request, SamplingParams
from localpaged.engine_factory import load_core
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.open_model import open_model
from localpaged_kernels.paged_attention import torch_cpu

SHARED_TOKENS = (1_300, 2_600)
"""About 1,000 and 2,000 words."""
OWN_TOKENS = 16
STEPS = 24


@contextmanager
def cascade(*, is_on: bool) -> Iterator[None]:
    """Attend to shared beginnings together inside the block, or not."""
    find = torch_cpu.cascade_of
    if not is_on:
        torch_cpu.cascade_of = lambda batch: None
    try:
        yield
    finally:
        torch_cpu.cascade_of = find


def decode_s(core: EngineCore, prompts: list[tuple[int, ...]], name: str) -> tuple[float, float]:
    """Return seconds and processor seconds of a step in which all chats get a token."""
    sampling = SamplingParams(temperature=0, ignore_eos=True)
    for i, prompt in enumerate(prompts):
        key = f"{name} {i}"
        assert not core.submit(Request(key, prompt, sampling, chat_id=key, speculation=False))
    while any(sequence.num_generated < 2 for sequence in core.scheduler.sequences):
        core.step()
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        core.step()
    seconds = (time.perf_counter() - started_s) / STEPS
    cpu_s = (time.process_time() - started_cpu_s) / STEPS
    assert all(sequence.num_generated > STEPS for sequence in core.scheduler.sequences)
    for i in range(len(prompts)):
        core.cancel(f"{name} {i}")
    return seconds, cpu_s


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--chats", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/shared_prompt.json"))
    arguments = parser.parse_args()
    opened = open_model(arguments.model)
    settings = Settings(model=arguments.model, dtype=arguments.dtype)
    core, _ = load_core(lambda: opened, settings, lambda event: None)
    source = random.Random(0)
    rows = []
    print("| shared tokens | apart, tok/s | together, tok/s | wall | processor |")
    print("|---|---|---|---|---|")
    for num_tokens in SHARED_TOKENS:
        shared = tuple(source.randrange(100, 40_000) for _ in range(num_tokens))
        own = [
            tuple(source.randrange(100, 40_000) for _ in range(OWN_TOKENS))
            for _ in range(arguments.chats)
        ]
        prompts = [(*shared, *rest) for rest in own]
        found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for repeat in range(arguments.repeats):
            for is_on in (False, True):
                with cascade(is_on=is_on):
                    found[is_on].append(decode_s(core, prompts, f"{num_tokens} {repeat} {is_on}"))
        (apart, apart_cpu), (joint, joint_cpu) = (
            tuple(map(min, zip(*found[is_on], strict=True))) for is_on in (False, True)
        )
        row = {
            "shared_tokens": num_tokens,
            "chats": arguments.chats,
            "apart_tokens_per_s": round(arguments.chats / apart, 1),
            "together_tokens_per_s": round(arguments.chats / joint, 1),
            "wall_ratio": round(apart / joint, 2),
            "processor_ratio": round(apart_cpu / joint_cpu, 2),
        }
        rows.append(row)
        print(
            "| {shared_tokens:,} | {apart_tokens_per_s} | {together_tokens_per_s} | "
            "×{wall_ratio} | ×{processor_ratio} |".format(**row),
            flush=True,
        )
    core.check()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"model": arguments.model, "rows": rows}, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
