"""A program that tells stats in tests: a real core over the fake runner, behind a Source."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from localpaged.engine.core import EngineCore
from localpaged.engine.inspection import Inspection
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.stats.collector import Collector
from localpaged.stats.publisher import OnSample, StatsThread
from localpaged.stats.reader import StatsReader
from localpaged.stats.schema import Program
from testkit.commands import Process, start
from testkit.engine_runs import make_core

WAIT_S = 60.0
"""Of a busy machine, where a program takes its time to begin; else nothing comes near it."""


class CoreSource:
    """A Source; `step` and the stats thread take turns. `is_busy`: nobody looks into blocks."""

    def __init__(self, core: EngineCore | None = None, *, titles: Mapping[str, str] = {}) -> None:
        self.core = core or make_core(context_length=256)
        self.names: Sequence[str] = ("",)
        self.names_loading: Sequence[str] = ()
        self.is_busy = False
        self.num_inspections = 0
        self._titles = titles
        self._lock = threading.Lock()

    def run(self, do: Callable[[EngineCore], object]) -> None:
        """Do something with the core while nobody looks at it."""
        with self._lock:
            do(self.core)

    def models(self) -> Sequence[str]:
        """See Source."""
        return self.names

    def loading(self) -> Sequence[str]:
        """See Source."""
        return self.names_loading

    def snapshot(self, model: str) -> EngineSnapshot:
        """See Source."""
        with self._lock:
            return self.core.snapshot()

    def inspect(self, model: str) -> Future[Inspection]:
        """See Source."""
        self.num_inspections += 1
        future: Future[Inspection] = Future()
        if not self.is_busy:
            with self._lock:
                future.set_result(self.core.inspect())
        return future

    def titles(self, chat_ids: Iterable[str]) -> Mapping[str, str]:
        """See Source."""
        return {chat_id: self._titles.get(chat_id, "") for chat_id in chat_ids}


@contextmanager
def telling(
    source: CoreSource | None = None,
    *,
    pid: int = 4_121,
    on_sample: OnSample = lambda collector: None,
    interval_s: float = 0.02,
) -> Iterator[StatsThread]:
    """A stats thread that runs and listens; `pid` is only what it says of itself."""
    source = source or CoreSource()
    program = Program("0.1.0", pid, "chat", started_at=float(pid))
    thread = StatsThread(
        source, Collector(source, program), on_sample=on_sample, interval_s=interval_s
    )
    thread.start()
    try:
        yield thread
    finally:
        thread.close()


def read_from(thread: StatsThread, *, timeout_s: float = WAIT_S) -> StatsReader:
    """Connect to a thread."""
    assert isinstance(thread.path, Path)
    return StatsReader(thread.path, timeout_s=timeout_s)


def ask_without_end() -> Process:
    """Start a program that answers for far longer than a test takes, and repeats nothing."""
    words = [f"word{number} " for number in range(2_000)]
    return start("ask", "Hi", script=words, times=100, streams={"stdin": subprocess.DEVNULL})


def eventually(is_so: Callable[[], object]) -> None:
    """Wait for another thread or process to get there."""
    ends_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < ends_s, "it never came to that"
        threading.Event().wait(0.002)
