"""A long chat goes on in a new process: its KV from files beside computing it again.

    python benchmarks/resume.py [--tokens 4000] [--repeats 3] [--out FILE.json]

Every run is a process of its own with an empty engine. Time to the first token is from submitting
the whole chat and a new question, the model being loaded. In turn: computed again; from files, read
when the question comes; from files that the system does not have in memory; brought back when the
chat was opened, before the question. The median of each counts. Then, what another chat that
streams notices of all this.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from localpaged import paths
from localpaged.config import DEFAULT_KV_DISK_BYTES, Settings
from localpaged.engine.engine import Engine
from localpaged.engine.events import Event, FailEvent, FinishEvent, PrefillEvent, ReadyEvent
from localpaged.engine.events import TokenEvent as Token
from localpaged.engine.params import BLOCK_SIZE_TOKENS, Request, SamplingParams
from localpaged.engine_factory import load_core
from localpaged.kv_files.budget import used_bytes
from localpaged.kv_files.folder import kv_root
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.open_model import open_model
from localpaged.models.registry import find_model

QUESTION_TOKENS = 20
STREAM_TOKENS = 150
WAYS = {
    "recompute": "computed again",
    "restore": "from files",
    "restore_cold": "from files, none in the system's memory",
    "opened": "brought back when the chat was opened",
}


class Run:
    """An engine of this process, and what it says with the time when it said it."""

    def __init__(self, model: str, dtype: str, *, has_files: bool) -> None:
        self._events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        settings = Settings(
            model, dtype=dtype, kv_disk_bytes=DEFAULT_KV_DISK_BYTES if has_files else 0
        )
        opened = open_model(model)
        self.engine = Engine(partial(load_core, lambda: opened, settings))
        self.engine.add_listener(self._listen)
        self.engine.start()
        self.wait(lambda event: isinstance(event, ReadyEvent))
        self.ask(tuple(range(100, 150)), "warm-up")

    def ask(self, ids: tuple[int, ...], name: str, *, max_tokens: int = 2) -> dict[str, float]:
        """Return the time to the first token, and how much of the prompt was in memory then."""
        started_s = time.perf_counter()
        self.submit(ids, name, max_tokens=max_tokens)
        _, prefill = self.wait(_is_of(name, PrefillEvent))
        first_s, _ = self.wait(_is_of(name, Token))
        self.wait(_is_of(name, FinishEvent))
        assert isinstance(prefill, PrefillEvent)
        found = {"cached": prefill.cached_tokens, "restored": prefill.restored_tokens}
        return {"ttft_s": first_s - started_s, **found}

    def submit(self, ids: tuple[int, ...], name: str, *, max_tokens: int) -> None:
        """Ask without waiting."""
        sampling = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        self.engine.submit(Request(name, ids, sampling, chat_id=name, speculation=False))

    def wait(self, is_it: Callable[[Event], bool]) -> tuple[float, Event]:
        """Return the next event of a kind and its time."""
        while True:
            when_s, event = self._events.get(timeout=600)
            if isinstance(event, FailEvent):
                raise event.error
            if is_it(event):
                return when_s, event

    def _listen(self, events: tuple[Event, ...]) -> None:
        now_s = time.perf_counter()
        for event in events:
            self._events.put((now_s, event))


def _is_of(name: str, kind: type) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, kind) and getattr(event, "request_id", "") == name


def one(way: str, model: str, dtype: str, prompt: tuple[int, ...]) -> dict[str, float]:
    """Measure one way; called in a process of its own."""
    question = (*prompt, *range(200, 200 + QUESTION_TOKENS))
    run = Run(model, dtype, has_files=way != "recompute")
    if way == "write":
        run.ask(prompt, "chat")
        result: dict[str, float] = {}
        started_s = time.perf_counter()
        run.engine.close()
        return {"close_s": time.perf_counter() - started_s, "bytes": used_bytes(kv_root())}
    if way == "restore_cold":
        _drop_from_memory()
    if way == "opened":
        run.engine.bring_back(prompt, chat_id="chat")
        while _cached_blocks(run.engine) < len(prompt) // BLOCK_SIZE_TOKENS - 1:
            time.sleep(0.005)
    result = _beside_a_stream(run, question) if way == "beside" else run.ask(question, "chat")
    run.engine.close()
    return result


def _beside_a_stream(run: Run, question: tuple[int, ...]) -> dict[str, float]:
    """Return the gaps between a chat's tokens, alone and while another one's KV comes back."""
    run.submit(tuple(range(300, 340)), "stream", max_tokens=STREAM_TOKENS)
    times = [run.wait(_is_of("stream", Token))[0] for _ in range(STREAM_TOKENS // 3)]
    run.engine.bring_back(question, chat_id="chat")
    while (held := run.wait(_is_of("stream", Token))) and len(times) < STREAM_TOKENS - 1:
        times.append(held[0])
    gaps = [(b - a) * 1e3 for a, b in pairwise(times)]
    alone, beside = gaps[5 : STREAM_TOKENS // 3 - 1], gaps[STREAM_TOKENS // 3 - 1 :]
    restored = _cached_blocks(run.engine)
    return {
        "restored_blocks": restored,
        "alone_median_ms": statistics.median(alone),
        "alone_max_ms": max(alone),
        "beside_median_ms": statistics.median(beside[:20]),
        "beside_max_ms": max(beside[:40]),
    }


def _cached_blocks(engine: Engine) -> int:
    return sum(node.num_cached for node in engine.inspect().result(60).nodes)


def _drop_from_memory() -> None:
    for path in kv_root().rglob("*.safetensors"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def in_a_process(way: str, arguments: argparse.Namespace, home: str) -> dict[str, float]:
    """Measure one way in a new process."""
    command = [
        *(sys.executable, __file__, "--way", way, "--model", str(arguments.model)),
        *("--dtype", arguments.dtype, "--tokens", str(arguments.tokens)),
    ]
    environment = {**os.environ, paths.HOME_VARIABLE: home}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--tokens", type=int, default=4_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/resume.json"))
    parser.add_argument("--way", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        source = random.Random(0)
        prompt = tuple(source.randrange(100, 40_000) for _ in range(arguments.tokens))
        print(json.dumps(one(arguments.way, arguments.model, arguments.dtype, prompt)))
        return
    arguments.model = find_model(arguments.model).path
    with tempfile.TemporaryDirectory() as home:
        written = in_a_process("write", arguments, home)
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(arguments.repeats):
            for way in WAYS:
                found[way].append(in_a_process(way, arguments, home))
        beside = in_a_process("beside", arguments, home)
    report(arguments, written, found, beside)


def report(
    arguments: argparse.Namespace,
    written: dict[str, float],
    found: dict[str, list[dict[str, float]]],
    beside: dict[str, float],
) -> None:
    """Print the table and write the results."""
    median = {way: statistics.median(run["ttft_s"] for run in runs) for way, runs in found.items()}
    print(f"\n{arguments.tokens:,} tokens of a chat and {QUESTION_TOKENS} new ones")
    print("| KV of the chat | found in memory | first token, s | faster |")
    print("|---|---|---|---|")
    for way, label in WAYS.items():
        ratio = median["recompute"] / median[way]
        cached = found[way][0]["cached"]
        print(f"| {label} | {cached:,.0f} | {median[way]:.3f} | ×{ratio:.1f} |")
    print(f"\nfiles: {written['bytes'] / 2**20:.0f} MiB; closing took {written['close_s']:.2f} s")
    print(
        "another chat's tokens: every {alone_median_ms:.1f} ms alone (at most {alone_max_ms:.1f}), "
        "{beside_median_ms:.1f} ms while {restored_blocks:.0f} blocks come back (at most "
        "{beside_max_ms:.1f})".format(**beside)
    )
    content = {
        "tokens": arguments.tokens,
        "runs": found,
        "median_ttft_s": median,
        "written": written,
        "beside": beside,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
