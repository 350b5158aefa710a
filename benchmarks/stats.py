"""What it costs the engine that the program tells its stats; default model, chats that stream.

    python benchmarks/stats.py [--chats 4] [--windows 12] [--window-s 2] [--out FILE.json]

The stats thread's processor time is read from its own clock, so that other programs count for
nothing. Beside it, decode speed in windows that take turns: nobody looks; a program of its own
looks once a second at everything. Their ratio is what a reader costs, the reader's share of the
processor included.
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
from dataclasses import dataclass
from pathlib import Path

from localpaged import paths
from localpaged.chat.service import ChatService
from localpaged.config import Settings
from localpaged.engine.params import SamplingParams
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.registry import find_model
from localpaged.wiring import open_service

WARM_UP_S = 3.0
LOOK = (sys.executable, "-m", "localpaged", "stats", "--json", "--watch", "1")


@dataclass(frozen=True, slots=True)
class Window:
    """What one stretch of time has seen."""

    tokens_per_s: float
    stats_ms_per_s: float


def measure(service: ChatService, seconds: float) -> Window:
    """Let it run and count."""
    stats = next(t for t in threading.enumerate() if t.name == "stats")
    assert stats.ident is not None
    clock = time.pthread_getcpuclockid(stats.ident)
    begun_s, cpu_s, tokens = time.perf_counter(), time.clock_gettime(clock), generated(service)
    time.sleep(seconds)
    took_s = time.perf_counter() - begun_s
    cpu_ms = 1e3 * (time.clock_gettime(clock) - cpu_s)
    return Window((generated(service) - tokens) / took_s, cpu_ms / took_s)


def generated(service: ChatService) -> int:
    """Return how many tokens there are by now."""
    return service.snapshot().generated_tokens


def take_turns(service: ChatService, arguments: argparse.Namespace) -> dict[str, list[Window]]:
    """Return windows without and with somebody who looks."""
    found: dict[str, list[Window]] = {"nobody": [], "one a second": []}
    for _ in range(arguments.windows):
        found["nobody"].append(measure(service, arguments.window_s))
        with subprocess.Popen(LOOK, stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None
            reader.stdout.readline()
            drain = threading.Thread(target=reader.stdout.read, daemon=True)
            drain.start()
            found["one a second"].append(measure(service, arguments.window_s))
            reader.kill()
            drain.join()
    return found


def main() -> None:
    """Print the figures, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chats", type=int, default=4)
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--window-s", type=float, default=2.0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/stats.json"))
    arguments = parser.parse_args()
    model = str(find_model(DEFAULT_MODEL).path)
    with tempfile.TemporaryDirectory() as home:
        os.environ[paths.HOME_VARIABLE] = home
        service = open_service(Settings(model=model))
        endless = SamplingParams(temperature=0.8, ignore_eos=True)
        for number in range(arguments.chats):
            service.send(service.new_chat().id, f"Tell story {number}.", sampling=endless)
        while generated(service) < 8 * arguments.chats:
            time.sleep(0.1)
        time.sleep(WARM_UP_S)
        windows = take_turns(service, arguments)
        service.close()
    figures = {
        name: {
            "tokens_per_s": round(statistics.median(w.tokens_per_s for w in seen), 1),
            "stats_thread_ms_per_s": round(statistics.median(w.stats_ms_per_s for w in seen), 2),
        }
        for name, seen in windows.items()
    }
    ratios = [
        looked.tokens_per_s / alone.tokens_per_s
        for alone, looked in zip(windows["nobody"], windows["one a second"], strict=True)
    ]
    record = {"chats": arguments.chats, **figures, "ratio": round(statistics.median(ratios), 3)}
    print(json.dumps(record, indent=2))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
