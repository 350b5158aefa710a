"""Engine: the one thread in which a model loads and runs; the in-process EnginePort."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from localpaged.engine.events import (
    EngineFailedEvent,
    Event,
    FailEvent,
    FinishEvent,
    LoadEvent,
    ReadyEvent,
)
from localpaged.engine.params import Request, RequestId
from localpaged.engine.port import Listener
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import EngineStopped, LocalPagedError

log = logging.getLogger(__name__)

SNAPSHOT_INTERVAL_S = 0.05


class Core(Protocol):
    """What the thread drives; `EngineCore`, or a fake."""

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""

    def submit(self, request: Request, *, submitted_s: float | None = None) -> list[Event]:
        """Queue a request, or return the FailEvent that says why not."""

    def cancel(self, request_id: RequestId) -> list[Event]:
        """End a request."""

    def fail_all(self, error: LocalPagedError) -> list[Event]:
        """End every request with `error`."""

    def step(self) -> list[Event]:
        """Run one step."""

    def snapshot(self) -> EngineSnapshot:
        """Return a picture of now."""


LoadCore = Callable[[Callable[[LoadEvent], None]], tuple[Core, ReadyEvent]]
"""Loads the model, telling its stages; runs on the engine's thread, as all of torch does."""


class Engine:
    """An EnginePort around one thread. Public methods may be called from any thread.

    The thread owns everything behind `load_core`. Callers and thread share an inbox, the latest
    snapshot (replaced by one assignment) and nothing else.
    """

    def __init__(self, load_core: LoadCore) -> None:
        self._load_core = load_core
        self._inbox: queue.SimpleQueue[Callable[[Core], list[Event]] | None] = queue.SimpleQueue()
        self._listeners: tuple[Listener, ...] = ()
        self._snapshot = EngineSnapshot()
        self._failure: LocalPagedError | None = None
        self._lock = threading.Lock()
        self._unanswered: set[RequestId] = set()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begin to load. Add listeners before, or miss the first stages."""
        self._thread.start()

    def add_listener(self, listener: Listener) -> None:
        """See EnginePort."""
        self._listeners = (*self._listeners, listener)

    def submit(self, request: Request) -> None:
        """See EnginePort."""
        now_s = time.perf_counter()
        with self._lock:
            failure = self._failure
            if failure is None:
                self._unanswered.add(request.id)
                self._inbox.put(lambda core: core.submit(request, submitted_s=now_s))
        if failure is not None:
            self._emit([FailEvent(request.id, failure)])

    def cancel(self, request_id: RequestId) -> None:
        """See EnginePort."""
        self._inbox.put(lambda core: core.cancel(request_id))

    def snapshot(self) -> EngineSnapshot:
        """See EnginePort."""
        return self._snapshot

    def close(self) -> None:
        """See EnginePort."""
        self._is_closing = True
        self._inbox.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            core, ready = self._load_core(self._on_load)
            self._snapshot = core.snapshot()
            self._emit([ready])
            self._serve(core)
        except LocalPagedError as error:
            self._die(error)
        except Exception as error:  # the thread's border: nothing above could report it
            log.exception("the engine stopped")
            self._die(EngineStopped(f"The engine stopped: {type(error).__name__}: {error}"))
        else:
            self._die(EngineStopped("The engine was closed."), is_expected=True)

    def _serve(self, core: Core) -> None:
        next_snapshot_s = 0.0
        while not self._is_closing:
            # Idle: sleep until something arrives. Busy: take what is there, then step.
            events: list[Event] = []
            block = core.is_idle
            while not (block and self._is_closing):
                try:
                    command = self._inbox.get(block=block)
                except queue.Empty:
                    break
                block = False
                if command is not None:
                    events += command(core)
            if not self._is_closing:
                events += core.step()
            now_s = time.perf_counter()
            if core.is_idle or now_s >= next_snapshot_s:
                self._snapshot = core.snapshot()
                next_snapshot_s = now_s + SNAPSHOT_INTERVAL_S
            self._emit(events)
        self._emit(core.fail_all(EngineStopped("The engine was closed.")))

    def _on_load(self, event: LoadEvent) -> None:
        if self._is_closing:
            raise EngineStopped("The engine was closed while the model loaded.")
        self._emit([event])

    def _die(self, error: LocalPagedError, *, is_expected: bool = False) -> None:
        with self._lock:
            self._failure = error
            unanswered = sorted(self._unanswered)
        events: list[Event] = [FailEvent(request_id, error) for request_id in unanswered]
        self._emit(events if is_expected else [*events, EngineFailedEvent(error)])

    def _emit(self, events: list[Event]) -> None:
        if not events:
            return
        with self._lock:
            for event in events:
                if isinstance(event, (FinishEvent, FailEvent)):
                    self._unanswered.discard(event.request_id)
        batch = tuple(events)
        for listener in self._listeners:
            try:
                listener(batch)
            except Exception:  # a broken listener must not stop the others
                log.exception("a listener failed")
