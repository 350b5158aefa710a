"""What the screen costs: its own pace under load, and what it takes from the engine.

    python benchmarks/tui.py [--panes 8] [--seconds 12] [--rounds 3] [--out FILE]

Everything runs in a pseudo terminal, as a user runs it. Part 1: the panes of a comparison, each at
60 tokens a second from a scripted engine, over a chat of 1,000 turns; how late the event loop is,
and how long a key takes until the terminal shows it. Part 2: from the start of the program to its
first picture. Part 3: the default model answers the same chats without a screen and with one, in
turns; what the screen costs it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import pty
import random
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STAGE = Path(__file__).with_name("tui_stage.py")
PANES_SIZE = (340, 60)
"""Columns and rows that show eight panes side by side."""
USUAL_SIZE = (120, 34)
FIRST_PICTURE = b"localpaged"
START_TIMEOUT_S = 120.0
# letters that no answer has, so that what the terminal shows is the key's echo
KEYS = "ΓΔΘΛΞΠΣΦΨΩЖЩЮЯЭБ"
KEY_PAUSE_S = (0.15, 0.45)


class Child:
    """A program in a pseudo terminal; `read` drains it as a terminal would."""

    def __init__(
        self, arguments: list[str], environment: dict[str, str], size: tuple[int, int]
    ) -> None:
        columns, rows = size
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.started_s = time.perf_counter()
        self.process = subprocess.Popen(
            arguments,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._fd = ours

    def read(self, timeout_s: float) -> bytes:
        """Return what was written, as soon as there is something; empty after the timeout."""
        ready, _, _ = select.select([self._fd], [], [], timeout_s)
        try:
            return os.read(self._fd, 65_536) if ready else b""
        except OSError:
            return b""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._fd, text.encode())

    def wait_for(self, wanted: bytes) -> float:
        """Drain until `wanted` was written; return the seconds since the start."""
        seen = b""
        while wanted not in seen:
            seen = seen[-len(wanted) :] + self.read(0.05)
            if time.perf_counter() - self.started_s > START_TIMEOUT_S:
                raise TimeoutError(f"the program never showed {wanted!r}")
        return time.perf_counter() - self.started_s

    def end(self) -> None:
        """Drain until it has ended; end it when it does not."""
        until_s = time.monotonic() + START_TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < until_s:
            self.read(0.05)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._fd)


@contextmanager
def home_with_model() -> Iterator[dict[str, str]]:
    """An environment whose home is new and has the default model."""
    from localpaged import paths
    from localpaged.models.catalogue import DEFAULT_MODEL

    model = paths.models_dir() / f"{DEFAULT_MODEL}.gguf"
    with tempfile.TemporaryDirectory(prefix="localpaged-tui-") as home:
        support = f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}"
        environment = {
            **os.environ,
            paths.HOME_VARIABLE: home,
            "PYTHONPATH": support,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        # where modules are installed they are compiled once, not at each start
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        kept = os.environ.get(paths.HOME_VARIABLE)
        os.environ[paths.HOME_VARIABLE] = home
        models = paths.ensure_private_dir(paths.models_dir())
        (models / model.name).symlink_to(model)
        if kept is None:
            del os.environ[paths.HOME_VARIABLE]
        else:
            os.environ[paths.HOME_VARIABLE] = kept
        yield environment


def measure_pace(panes: int, seconds: float) -> dict[str, Any]:
    """Stream scripted answers into the panes; return lags of the loop and delays of keys in ms."""
    random_numbers = random.Random(1)
    echoes_ms = []
    with home_with_model() as environment:
        child = _stage(environment, "scripted", panes=panes, seconds=seconds)
        child.wait_for(b"streaming")
        child.type("i")  # to the prompt, where keys are text
        until_s = time.perf_counter() + seconds - 1
        key = 0
        while time.perf_counter() < until_s:
            pause_until_s = time.perf_counter() + random_numbers.uniform(*KEY_PAUSE_S)
            while (left_s := pause_until_s - time.perf_counter()) > 0:
                child.read(left_s)
            letter = KEYS[key % len(KEYS)]
            key += 1
            typed_s = time.perf_counter()
            child.type(letter)
            seen = b""
            while letter.encode() not in seen and time.perf_counter() - typed_s < 2:
                seen += child.read(0.05)
            echoes_ms.append((time.perf_counter() - typed_s) * 1_000)
        child.end()
        report = _report(environment)
    return {
        "panes": panes,
        "tokens_per_s_a_pane": report["tokens_per_s_a_pane"],
        "loop_lag_ms": _percentiles(report["lags_ms"]),
        "key_to_echo_ms": _percentiles(echoes_ms),
    }


def measure_first_paint(rounds: int) -> dict[str, float]:
    """Return the seconds from the start of `localpaged chat` to its first picture."""
    times_s = []
    for _ in range(rounds):
        with home_with_model() as environment:
            command = [sys.executable, "-m", "localpaged", "chat"]
            child = Child(command, environment, USUAL_SIZE)
            times_s.append(child.wait_for(FIRST_PICTURE))
            child.type("\x11")  # ^Q
            child.end()
    return {"min_s": round(min(times_s), 3), "median_s": round(statistics.median(times_s), 3)}


def measure_cost(panes: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Return the default model's tokens a second without a screen and with one, in turns.

    On the screen is a chat and the list of all, or all of them side by side.
    """
    rates: dict[str, list[float]] = {"headless": [], "list": [], "panes": []}
    shares: dict[str, list[float]] = {mode: [] for mode in rates}
    for _ in range(rounds):
        for mode, known in rates.items():
            with home_with_model() as environment:
                size = PANES_SIZE if mode == "panes" else USUAL_SIZE
                child = _stage(environment, mode, panes=panes, seconds=seconds, size=size)
                child.end()
                report = _report(environment)
                known.append(report["tokens_per_s"])
                shares[mode].append(report["screen_share"])

    def kept(mode: str) -> float:
        pairs = zip(rates["headless"], rates[mode], strict=True)
        return round(statistics.median(b / a for a, b in pairs), 3)

    return {
        "chats": panes,
        **{f"{mode}_tokens_per_s": [round(r, 1) for r in known] for mode, known in rates.items()},
        "kept_with_list": kept("list"),
        "kept_with_panes": kept("panes"),
        "screen_share_with_list": round(statistics.median(shares["list"]), 4),
        "screen_share_with_panes": round(statistics.median(shares["panes"]), 4),
    }


def _stage(
    environment: dict[str, str],
    mode: str,
    *,
    panes: int,
    seconds: float,
    size: tuple[int, int] = PANES_SIZE,
) -> Child:
    command = [sys.executable, str(STAGE), mode, str(panes), str(seconds)]
    return Child(command, environment, size)


def _report(environment: dict[str, str]) -> dict[str, Any]:
    from localpaged import paths

    content: dict[str, Any] = json.loads(
        (Path(environment[paths.HOME_VARIABLE]) / "report.json").read_text()
    )
    return content


def _percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)

    return {"p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": round(ordered[-1], 1)}


def print_table(report: dict[str, Any]) -> None:
    """Print a line for each promise."""
    pace, cost = report["pace"], report["engine_cost"]
    lag, echo = pace["loop_lag_ms"], pace["key_to_echo_ms"]
    print(f"{pace['panes']} panes at {pace['tokens_per_s_a_pane']:.0f} tok/s each, 1,000-turn chat")
    print("| | measured | to hold |")
    print("|---|---|---|")
    print(f"| event-loop lag, p95 | {lag['p95']:.1f} ms | 50 ms |")
    print(f"| event-loop lag, p99 | {lag['p99']:.1f} ms | 120 ms |")
    print(f"| key to echo, p95 | {echo['p95']:.1f} ms | 50 ms |")
    print(f"| first paint | {report['first_paint']['median_s']:.2f} s | 0.4 s |")
    chats = f"{cost['chats']} chats"
    print(f"| the engine keeps, {chats}, one shown | {cost['kept_with_list']:.0%} | 95 % |")
    print(f"| the engine keeps, {chats} side by side | {cost['kept_with_panes']:.0%} | 95 % |")
    share = cost["screen_share_with_list"]
    print(f"| processor time of the screen, {chats}, one shown | {share:.1%} of a core | 4 % |")


def main() -> None:
    """Measure, print and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--panes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tui.json"))
    arguments = parser.parse_args()
    report = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "pace": measure_pace(arguments.panes, arguments.seconds),
        "first_paint": measure_first_paint(arguments.rounds),
        "engine_cost": measure_cost(arguments.panes, arguments.seconds, arguments.rounds),
    }
    print_table(report)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
