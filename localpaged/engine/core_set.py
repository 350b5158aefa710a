"""CoreSet: the cores of all loaded models, stepping in turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from localpaged.engine.events import Event, FailEvent, FinishEvent, Usage
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.inspection import BlockTokens, Inspection, PinView
from localpaged.engine.params import Request, RequestId
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import EngineError, LocalPagedError, ModelNotFound

log = logging.getLogger(__name__)

ModelName = str


class Core(Protocol):
    """One model's requests and steps; `EngineCore`, or a fake."""

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""

    @property
    def is_blocked(self) -> bool:
        """Whether a step could do nothing but wait."""

    def call_when_unblocked(self, wake: Callable[[], None]) -> None:
        """Call `wake`, on another thread, when that may have changed."""

    def note_ready(self) -> None:
        """The model is loaded: only from now on does a request wait for this core."""

    def submit(self, request: Request, *, submitted_s: float | None = None) -> list[Event]:
        """Queue a request, or return the FailEvent that says why not."""

    def cancel(self, request_id: RequestId) -> list[Event]:
        """End a request; unknown ids are ignored."""

    def fail_all(self, error: LocalPagedError) -> list[Event]:
        """End every request with `error`."""

    def focus(self, chat_id: str) -> None:
        """Serve this chat before others from now on."""

    def step(self) -> list[Event]:
        """Run one step."""

    def snapshot(self) -> EngineSnapshot:
        """Return a picture of now."""

    def inspect(self) -> Inspection:
        """Return what lies in every block now."""

    def block_tokens(self, block: int) -> BlockTokens | None:
        """Return the tokens of a block; None when it has none."""

    def pin(self, key: str, tokens: Iterable[int]) -> PinView:
        """Keep the KV of a prefix until `key` is unpinned; raises NoRoom."""

    def pin_branch(self, key: str, node_id: int) -> PinView:
        """Keep the prefix that ends with a branch of the tree; raises NoRoom."""

    def unpin(self, key: str) -> PinView:
        """Let a pinned prefix be evicted again."""

    def evict(self, node_id: int, offset: int = 0) -> int:
        """Evict what nobody holds of a branch and below it; return how many blocks."""


@runtime_checkable
class LastingCore(Protocol):
    """A core whose KV outlives it; see `KeepingCore`."""

    def bring_back(self, token_ids: tuple[int, ...], chat_id: str) -> None:
        """Restore KV of a prefix that is likely to be asked for, where there is room."""

    def park(self, *, wait_s: float) -> None:
        """Put away what shall outlive the core, which is not used any more."""


@dataclass(slots=True, eq=False)
class Awaited:
    """A model that loads, and the requests that wait for it with the times they came."""

    waiting: dict[RequestId, tuple[Request, float]] = field(default_factory=dict)


class CoreSet:
    """Engine thread only. Each model has its own pool, tree and queue; nothing is shared.

    Invariant: the first model that was added is the default until it is removed. A model is
    loaded, awaited, or not here.
    """

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._cores: dict[ModelName, Core] = {}
        self._awaited: dict[ModelName, Awaited] = {}
        self._leaving: list[LastingCore] = []
        self._turn = 0

    @property
    def names(self) -> tuple[ModelName, ...]:
        """The loaded models, the default one first."""
        return tuple(self._cores)

    @property
    def is_idle(self) -> bool:
        """Whether no model has anything to do now; `wake` tells when that may have changed."""
        return all(core.is_idle or core.is_blocked for core in self._cores.values())

    def expect(self, name: ModelName) -> Awaited | None:
        """Let requests for a model that begins to load wait; None when it is here or awaited."""
        if name in self._cores or name in self._awaited:
            return None
        self._awaited[name] = Awaited()
        return self._awaited[name]

    def is_expected(self, name: ModelName, awaited: Awaited) -> bool:
        """Whether somebody still waits for this very attempt to load a model."""
        return self._awaited.get(name) is awaited

    def add(self, name: ModelName, core: Core) -> list[Event]:
        """Take a loaded model in, and what waited for it."""
        assert name not in self._cores
        self._cores[name] = core
        core.call_when_unblocked(self._wake)
        core.note_ready()
        awaited = self._awaited.pop(name, Awaited())
        return [
            event
            for request, submitted_s in awaited.waiting.values()
            for event in core.submit(request, submitted_s=submitted_s)
        ]

    def remove(self, name: ModelName, error: LocalPagedError | None = None) -> list[Event]:
        """Let a model and its memory go, or give up on it; its requests fail."""
        error = error or EngineError(f"{name} was unloaded.")
        core = self._cores.pop(name, None)
        events = [] if core is None else core.fail_all(error)
        if isinstance(core, LastingCore):
            self._leaving.append(core)
        waiting = self._awaited.pop(name, Awaited()).waiting
        return [*events, *(FailEvent(request_id, error) for request_id in waiting)]

    def park(self, *, wait_s: float) -> None:
        """Put away what shall outlive the models that were removed; see `KeepingCore.park`."""
        while self._leaving:
            try:
                self._leaving.pop().park(wait_s=wait_s)
            except Exception:  # it costs a few files; a model or the program ends all the same
                log.exception("KV could not be put away")

    def core(self, name: ModelName) -> Core:
        """Return a loaded model's core, "" being the first one's. Raises ModelNotFound."""
        core = self._cores.get(name or next(iter(self._cores), ""))
        if core is None:
            loaded = ", ".join(self._cores) or "none"
            raise ModelNotFound(f"{name} is not loaded.", hint=f"Loaded models: {loaded}.")
        return core

    def submit(self, request: Request, *, submitted_s: float) -> list[Event]:
        """Queue a request with its model, the default one when it names none."""
        name = request.model or next(iter(self._cores), "")
        core = self._cores.get(name)
        if name in self._awaited:
            self._awaited[name].waiting[request.id] = (request, submitted_s)
            return []
        if core is None:
            loaded = ", ".join(self._cores) or "none"
            error = ModelNotFound(f"{name} is not loaded.", hint=f"Loaded models: {loaded}.")
            return [FailEvent(request.id, error)]
        return core.submit(request, submitted_s=submitted_s)

    def cancel(self, request_id: RequestId) -> list[Event]:
        """End a request, wherever it is."""
        for awaited in self._awaited.values():
            if (found := awaited.waiting.pop(request_id, None)) is not None:
                return _cancelled(found[0])
        return [event for core in self._cores.values() for event in core.cancel(request_id)]

    def fail_all(self, error: LocalPagedError) -> list[Event]:
        """End every request of every model."""
        names = [*self._cores, *self._awaited]
        return [event for name in names for event in self.remove(name, error)]

    def focus(self, chat_id: str) -> list[Event]:
        """Serve this chat before others, on every model."""
        for core in self._cores.values():
            core.focus(chat_id)
        return []

    def step(self) -> list[Event]:
        """Run one step of the next model that has something to do."""
        names = self.names
        for offset in range(len(names)):
            place = (self._turn + offset) % len(names)
            core = self._cores[names[place]]
            if not (core.is_idle or core.is_blocked):
                self._turn = place + 1
                return core.step()
        return []

    def snapshots(self) -> dict[ModelName, EngineSnapshot]:
        """Return a picture of each model."""
        return {name: core.snapshot() for name, core in self._cores.items()}


def _cancelled(request: Request) -> list[Event]:
    usage = Usage(len(request.prompt_ids), 0, 0, 0.0, 0.0)
    last = request.num_samples - 1
    return [
        FinishEvent(request.id, FinishReason.CANCELLED, usage, branch, branch == last)
        for branch in range(request.num_samples)
    ]
