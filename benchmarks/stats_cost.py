"""What it costs the engine that the program tells its stats; default model, chats that stream.

    python benchmarks/stats_cost.py [--chats 4] [--rounds 20] [--window-s 2] [--out FILE.json]

In each round three windows follow each other, in another order every time: `off`, the program
tells nothing; `told`, it tells and nobody looks; `read`, a program of its own looks at everything
five times a second. Ratios are of windows of one round, since machines are shared and a chat that
grows slows down. The reader's own share of the processor is a part of `read`. The stats thread's
processor time comes from its own clock, so that other programs count for nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

from localpaged import paths, wiring
from localpaged.chat.service import ChatService
from localpaged.config import Settings
from localpaged.engine.params import SamplingParams
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.registry import find_model
from localpaged.stats.collector import Collector
from localpaged.stats.publisher import StatsThread
from localpaged.stats.run_keeper import RunKeeper
from localpaged.stats.schema import Program
from localpaged.stats.source import ServiceSource
from localpaged.store.run_summaries import SaveRunSummaries
from localpaged.store.store import Store

WARM_UP_S = 3.0
OFF, TOLD, READ = "off", "told", "read"
WAYS = (OFF, TOLD, READ)
LOOK = (sys.executable, "-m", "localpaged", "stats", "--json", "--watch", "0.2")

Tell = Callable[[], StatsThread]


@dataclass(frozen=True, slots=True)
class Window:
    """What one stretch of time has seen."""

    tokens_per_s: float
    thread_ms_per_s: float


def open_untold(model: str) -> tuple[ChatService, Tell]:
    """Start the program without stats; return what begins to tell them."""
    parts: list[tuple[ServiceSource, Store]] = []

    def keep(service: ChatService, store: Store, *, command: str, default_model: str) -> None:
        parts.append((ServiceSource(service, store, default_model=default_model), store))

    with patch.object(wiring, "tell_stats", keep):
        service = wiring.open_service(Settings(model=model))
    ((source, store),) = parts
    return service, partial(begin, source, store)


def begin(source: ServiceSource, store: Store) -> StatsThread:
    """Begin to tell, as `stats.running.tell_stats` does."""
    program = Program("", os.getpid(), "benchmark", time.time())
    keeper = RunKeeper(
        store.run_id,
        program,
        lambda rows: store.writer.submit_soon("run summary", SaveRunSummaries(rows)),
    )
    stats = StatsThread(source, Collector(source, program), on_sample=keeper.note)
    stats.start()
    return stats


@contextmanager
def way(name: str, tell: Tell) -> Iterator[None]:
    """Do what is measured while the block runs."""
    if name == OFF:
        yield
        return
    stats = tell()
    try:
        if name == READ:
            with subprocess.Popen(LOOK, stdout=subprocess.PIPE) as reader:
                assert reader.stdout is not None
                reader.stdout.readline()
                drain = threading.Thread(target=reader.stdout.read, daemon=True)
                drain.start()
                yield
                reader.kill()
                drain.join()
        else:
            yield
    finally:
        stats.close()


def measure(service: ChatService, seconds: float) -> Window:
    """Let it run and count."""
    begun_s, cpu_s, tokens = time.perf_counter(), thread_s(), generated(service)
    time.sleep(seconds)
    took_s = time.perf_counter() - begun_s
    return Window((generated(service) - tokens) / took_s, 1e3 * (thread_s() - cpu_s) / took_s)


def thread_s() -> float:
    """Return the processor time of the stats thread, 0 while there is none."""
    for thread in threading.enumerate():
        if thread.name == "stats" and thread.ident is not None:
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return 0.0


def generated(service: ChatService) -> int:
    """Return how many tokens there are by now."""
    return service.snapshot().generated_tokens


def take_turns(
    service: ChatService, tell: Tell, *, rounds: int, window_s: float
) -> dict[str, list[Window]]:
    """Return the windows of each way, one a round."""
    found: dict[str, list[Window]] = {name: [] for name in WAYS}
    for number in range(rounds):
        turned = number % len(WAYS)
        for name in WAYS[turned:] + WAYS[:turned]:
            with way(name, tell):
                found[name].append(measure(service, window_s))
    return found


def figures(windows: dict[str, list[Window]], name: str) -> dict[str, float]:
    """Return medians of a way, and quartiles of its ratio to `off` of the same round."""
    ratios = [
        window.tokens_per_s / off.tokens_per_s
        for window, off in zip(windows[name], windows[OFF], strict=True)
    ]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {
        "tokens_per_s": round(statistics.median(w.tokens_per_s for w in windows[name]), 2),
        "thread_ms_per_s": round(statistics.median(w.thread_ms_per_s for w in windows[name]), 2),
        "ratio": round(middle, 3),
        "ratio_q1": round(low, 3),
        "ratio_q3": round(high, 3),
    }


def main() -> None:
    """Print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chats", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--window-s", type=float, default=2.0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/stats-cost.json"))
    arguments = parser.parse_args()
    model = str(find_model(DEFAULT_MODEL).path)
    with tempfile.TemporaryDirectory() as home:
        os.environ[paths.HOME_VARIABLE] = home
        service, tell = open_untold(model)
        endless = SamplingParams(temperature=1.0, ignore_eos=True)
        for number in range(arguments.chats):
            service.send(service.new_chat().id, f"Tell story {number}.", sampling=endless)
        while generated(service) < 8 * arguments.chats:
            time.sleep(0.1)
        time.sleep(WARM_UP_S)
        windows = take_turns(service, tell, rounds=arguments.rounds, window_s=arguments.window_s)
        service.close()
    record = {"chats": arguments.chats, "rounds": arguments.rounds} | {
        name: figures(windows, name) for name in WAYS
    }
    print(f"{'':6} {'tok/s':>8} {'of off':>8} {'quartiles':>15} {'thread ms/s':>12}")
    for name in WAYS:
        of = record[name]
        assert isinstance(of, dict)
        quartiles = f"{of['ratio_q1']:.3f} to {of['ratio_q3']:.3f}"
        print(
            f"{name:6} {of['tokens_per_s']:8.1f} {of['ratio']:8.3f} {quartiles:>15}"
            f" {of['thread_ms_per_s']:12.2f}"
        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
