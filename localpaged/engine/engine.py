"""Engine: the one thread in which models load and run; the in-process EnginePort."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from localpaged import paths
from localpaged.engine.core_set import Awaited, Core, CoreSet, LastingCore, ModelName
from localpaged.engine.events import (
    EngineFailedEvent,
    Event,
    FailEvent,
    FinishEvent,
    LoadEvent,
    LoadFailedEvent,
    ReadyEvent,
    UnloadedEvent,
)
from localpaged.engine.params import Request, RequestId
from localpaged.engine.port import CLOSED, Listener
from localpaged.engine.questions import MemoryQuestions
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import (
    EngineError,
    EngineStopped,
    LocalPagedError,
    ModelError,
    ModelNotFound,
)

log = logging.getLogger(__name__)

SNAPSHOT_INTERVAL_S = 0.05
PARKING_S = 0.5
"""So long the end waits, at most, until copied KV is in files."""

LoadCore = Callable[[Callable[[LoadEvent], None]], tuple[Core, ReadyEvent]]
"""Loads a model, telling its stages; runs on the engine's thread, as all of torch does."""

FindLoader = Callable[[ModelName], LoadCore]
"""Says how a further model is loaded; raises ModelError for one that cannot be."""

Command = Callable[[CoreSet], list[Event]]


class Engine(MemoryQuestions):
    """An EnginePort around one thread. Public methods may be called from any thread.

    The thread owns everything behind the loaders. Callers and thread share an inbox, the latest
    snapshots (replaced by one assignment) and nothing else. While a further model loads, the
    others keep stepping between its stages.
    """

    def __init__(
        self,
        load_core: LoadCore | None,
        find_loader: FindLoader | None = None,
        *,
        after_unload: Callable[[], None] = lambda: None,
    ) -> None:
        """`load_core` loads the first model, None for none; `find_loader` tells how to load others.

        `after_unload` is called on the engine's thread when nothing holds a model any more.
        """
        self._load_core = load_core
        self._after_unload = after_unload
        self._find_loader = find_loader or _no_loader
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        super().__init__(self._inbox.put)
        self._listeners: tuple[Listener, ...] = ()
        self._cores = CoreSet(wake=lambda: self._inbox.put(None))
        self._snapshots: dict[ModelName, EngineSnapshot] = {}
        self._next_snapshot_s = 0.0
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
                self._inbox.put(lambda cores: cores.submit(request, submitted_s=now_s))
        if failure is not None:
            self._emit([FailEvent(request.id, failure)])

    def cancel(self, request_id: RequestId) -> None:
        """See EnginePort."""
        self._inbox.put(lambda cores: cores.cancel(request_id))

    def focus(self, chat_id: str) -> None:
        """See EnginePort."""
        self._inbox.put(lambda cores: cores.focus(chat_id))

    def load(self, name: ModelName) -> None:
        """See EnginePort."""
        self._inbox.put(lambda cores: self._load_further(name))

    def unload(self, name: ModelName) -> None:
        """See EnginePort."""
        self._inbox.put(lambda cores: self._unload(name))

    def bring_back(self, token_ids: tuple[int, ...], *, chat_id: str, model: str = "") -> None:
        """Restore what files have of a chat's KV, because it is likely to be asked for."""

        def ask(core: Core) -> None:
            if isinstance(core, LastingCore):
                core.bring_back(token_ids, chat_id)

        self._questions.ask(model, ask)

    def snapshot(self, model: ModelName = "") -> EngineSnapshot:
        """See EnginePort."""
        snapshots = self._snapshots
        name = model or next(iter(snapshots), "")
        return snapshots.get(name) or EngineSnapshot()

    def close(self) -> None:
        """See EnginePort."""
        self._is_closing = True
        self._inbox.put(None)
        if self._thread.is_alive():
            self._thread.join()
        # A thread that never ran has nobody else to say so.
        self._questions.fail_all(EngineStopped(CLOSED))

    def _run(self) -> None:
        try:
            if self._load_core is not None:
                core, ready = self._load_core(self._on_load)
                self._cores.add(ready.model_name, core)
                self._snapshots = self._cores.snapshots()
                self._emit([ready])
            while not self._is_closing:
                self._serve(may_wait=True)
            self._snapshots = self._cores.snapshots()  # what the run came to
            self._emit(self._cores.fail_all(EngineStopped(CLOSED)))
        except LocalPagedError as error:
            self._die(error)
        except Exception as error:  # the thread's border: nothing above could report it
            log.exception("the engine stopped")
            self._die(EngineStopped(f"The engine stopped: {type(error).__name__}: {error}"))
        else:
            self._die(EngineStopped(CLOSED), is_expected=True)
            self._cores.park(wait_s=PARKING_S)

    def _serve(self, *, may_wait: bool) -> None:
        """Take the commands that are there, then step; when idle, sleep until one arrives."""
        events: list[Event] = []
        block = may_wait and self._cores.is_idle
        while not self._is_closing:
            try:
                command = self._inbox.get(block=block)
            except queue.Empty:
                break
            block = False
            if command is not None:
                events += command(self._cores)
        if not self._is_closing:
            events += self._cores.step()
        now_s = time.perf_counter()
        if self._cores.is_idle or now_s >= self._next_snapshot_s:
            self._snapshots = self._cores.snapshots()
            self._next_snapshot_s = now_s + SNAPSHOT_INTERVAL_S
        self._emit(events)

    def _unload(self, name: ModelName) -> list[Event]:
        events = self._cores.remove(name)
        self._cores.park(wait_s=0)
        self._after_unload()
        return [*events, UnloadedEvent(name)]

    def _load_further(self, name: ModelName) -> list[Event]:
        awaited = self._cores.expect(name)
        if awaited is None:
            return []

        def on_load(event: LoadEvent) -> None:
            self._on_load(replace(event, model_name=name))
            # The others' answers go on streaming between two stages.
            self._serve(may_wait=False)
            if not self._cores.is_expected(name, awaited):
                raise EngineError(f"{name} was unloaded while it was loading.")

        try:
            core, ready = self._find_loader(name)(on_load)
        except LocalPagedError as error:
            return self._give_up(name, awaited, error)
        except Exception as error:  # a bad file must not take the loaded models down
            log.exception("loading %s failed", name)
            message = f"{name} could not be loaded: {type(error).__name__}: {error}"
            return self._give_up(name, awaited, ModelError(message, hint=paths.log_hint()))
        waiting_events = self._cores.add(name, core)
        return [replace(ready, model_name=name, is_further=True), *waiting_events]

    def _give_up(self, name: ModelName, awaited: Awaited, error: LocalPagedError) -> list[Event]:
        if not self._cores.is_expected(name, awaited):
            return []  # it was told when the model was unloaded
        return [*self._cores.remove(name, error), LoadFailedEvent(name, error)]

    def _on_load(self, event: LoadEvent) -> None:
        if self._is_closing:
            raise EngineStopped("The engine was closed while the model loaded.")
        self._emit([event])

    def _die(self, error: LocalPagedError, *, is_expected: bool = False) -> None:
        with self._lock:
            self._failure = error
            unanswered = sorted(self._unanswered)
        self._questions.fail_all(error)
        events: list[Event] = [FailEvent(request_id, error) for request_id in unanswered]
        self._emit(events if is_expected else [*events, EngineFailedEvent(error)])

    def _emit(self, events: list[Event]) -> None:
        if not events:
            return
        with self._lock:
            for event in events:
                if isinstance(event, FailEvent) or (
                    isinstance(event, FinishEvent) and event.is_last
                ):
                    self._unanswered.discard(event.request_id)
        batch = tuple(events)
        for listener in self._listeners:
            try:
                listener(batch)
            except Exception:  # a broken listener must not stop the others
                log.exception("a listener failed")


def _no_loader(name: ModelName) -> LoadCore:
    raise ModelNotFound(f"{name} is not loaded, and this engine loads no further models.")
