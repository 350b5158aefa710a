"""Speed of the engine on the default model: decode, prefill, time to first token.

    python benchmarks/engine.py [--model NAME] [--dtype auto] [--peers] [--out FILE.json]

Drives the core that `localpaged` itself runs, in this process and without a screen. With
--peers the same work is given to transformers' `generate` and, where it is installed, to
llama-cpp-python, alternating with ours; only ratios of one run are worth quoting, because
machines differ and are shared.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from localpaged import __version__
from localpaged.config import Settings
from localpaged.engine.core import EngineCore
from localpaged.engine.events import Event, FailEvent, FinishEvent, Usage
from localpaged.engine.params import Request, SamplingParams
from localpaged.engine_factory import load_core
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.open_model import open_model

CONTEXT_TOKENS = 256
DECODE_TOKENS = 64
PREFILL_TOKENS = 1_024
SHARED_TOKENS = 1_024
CHATS = (1, 4, 16)


@dataclass(frozen=True)
class Row:
    """One figure: the median of its runs, with the best and the worst."""

    name: str
    unit: str
    median: float
    best: float
    worst: float


class Ours:
    """The engine's core, driven step by step."""

    name = "localpaged"

    def __init__(self, model: str, dtype: str) -> None:
        opened = open_model(model)
        started_s = time.perf_counter()
        self.core, ready = load_core(
            lambda: opened, Settings(model=model, dtype=dtype), lambda event: None
        )
        self.load_s = time.perf_counter() - started_s
        self.dtype = ready.dtype
        self._random = random.Random(0)
        self._count = 0

    def prompt(self, num_tokens: int) -> tuple[int, ...]:
        """Return a prompt that no cache has seen."""
        return tuple(self._random.randrange(100, 40_000) for _ in range(num_tokens))

    def decode(self, chats: int) -> float:
        """Return decoded tokens a second of `chats` chats together, prompts not counted."""
        prompts = [self.prompt(CONTEXT_TOKENS) for _ in range(chats)]
        usages = self.answer(prompts, DECODE_TOKENS)
        return sum(usage.completion_tokens - 1 for usage in usages) / max(
            u.decode_s for u in usages
        )

    def prefill(self) -> float:
        """Return prompt tokens a second of one long prompt."""
        (usage,) = self.answer([self.prompt(PREFILL_TOKENS)], 1)
        return PREFILL_TOKENS / usage.ttft_s

    def first_token(self) -> tuple[float, float]:
        """Return seconds to the first token of a long prompt, new and with a known prefix."""
        shared = self.prompt(SHARED_TOKENS)
        (cold,) = self.answer([(*shared, *self.prompt(16))], 1)
        (warm,) = self.answer([(*shared, *self.prompt(16))], 1)
        assert warm.cached_tokens >= SHARED_TOKENS - 16
        return cold.ttft_s, warm.ttft_s

    def answer(self, prompts: Iterable[tuple[int, ...]], num_tokens: int) -> list[Usage]:
        """Answer all prompts together; return their bills."""
        sampling = SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True)
        events: list[Event] = []
        for prompt in prompts:
            self._count += 1
            # Random prompts make a small model repeat itself, which guessing would exploit.
            request = Request(str(self._count), prompt, sampling, speculation=False)
            events += self.core.submit(request)
        while not self.core.is_idle:
            events += self.core.step()
        assert not any(isinstance(event, FailEvent) for event in events)
        return [event.usage for event in events if isinstance(event, FinishEvent)]


def measure(subject: Any, *, repeats: int) -> list[Row]:
    """Return the figures of one subject."""
    rows = []
    for chats in CHATS:
        name = f"decode, {chats} chat{'s' if chats > 1 else ''}"
        rows.append(_row(name, "tok/s", [subject.decode(chats) for _ in range(repeats)]))
    rows.append(_row("prefill", "tok/s", [subject.prefill() for _ in range(repeats)]))
    if hasattr(subject, "first_token"):
        pairs = [subject.first_token() for _ in range(repeats)]
        tokens = f"{SHARED_TOKENS:,} tokens"
        rows.append(_row(f"first token, {tokens} cold", "ms", [1e3 * cold for cold, _ in pairs]))
        rows.append(_row(f"first token, {tokens} shared", "ms", [1e3 * warm for _, warm in pairs]))
    return rows


def print_table(results: dict[str, list[Row]]) -> None:
    """Print one line a figure, one column a subject, and the ratio to the first one."""
    names = list(results)
    ours = results[names[0]]
    print("| figure | unit | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for row in ours:
        cells = [f"{row.median:,.0f}"]
        for name in names[1:]:
            other = next((r for r in results[name] if r.name == row.name), None)
            cells.append(
                "" if other is None else f"{other.median:,.0f} (×{row.median / other.median:.2f})"
            )
        print(f"| {row.name} | {row.unit} | " + " | ".join(cells) + " |")


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", action="store_true", help="measure transformers, llama.cpp too")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engine-cpu.json"))
    arguments = parser.parse_args()
    ours = Ours(arguments.model, arguments.dtype)
    _check_answers(ours.core)
    subjects: list[Any] = [ours]
    if arguments.peers:
        from peers import available_peers

        subjects += available_peers(open_model(arguments.model).source, DECODE_TOKENS)
    results = {subject.name: measure(subject, repeats=arguments.repeats) for subject in subjects}
    print_table(results)
    report = {
        "machine": machine(),
        "model": arguments.model,
        "dtype": ours.dtype,
        "load_s": round(ours.load_s, 2),
        "context_tokens": CONTEXT_TOKENS,
        "results": {name: [asdict(row) for row in rows] for name, rows in results.items()},
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")


def _row(name: str, unit: str, values: list[float]) -> Row:
    is_time = unit == "ms"
    return Row(
        name,
        unit,
        median=round(statistics.median(values), 2),
        best=round(min(values) if is_time else max(values), 2),
        worst=round(max(values) if is_time else min(values), 2),
    )


def _check_answers(core: EngineCore) -> None:
    """Refuse to time an engine whose books do not balance."""
    core.check()


def machine() -> dict[str, Any]:
    """Return what the figures depend on beside the program."""
    import torch
    import transformers

    model = next(
        (
            line.partition(":")[2].strip()
            for line in _read(Path("/proc/cpuinfo")).splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "processor": model,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "localpaged": __version__,
    }


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    main()
