"""CoreSet: the cores of all loaded models, stepping in turn."""

from __future__ import annotations

from typing import Protocol

from localpaged.engine.events import Event, FailEvent
from localpaged.engine.params import Request, RequestId
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import EngineError, LocalPagedError, ModelNotFound

ModelName = str


class Core(Protocol):
    """One model's requests and steps; `EngineCore`, or a fake."""

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""

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


class CoreSet:
    """Engine thread only. Each model has its own pool, tree and queue; nothing is shared.

    Invariant: the first model that was added is the default until it is removed.
    """

    def __init__(self) -> None:
        self._cores: dict[ModelName, Core] = {}
        self._turn = 0

    @property
    def names(self) -> tuple[ModelName, ...]:
        """The loaded models, the default one first."""
        return tuple(self._cores)

    @property
    def is_idle(self) -> bool:
        """Whether no model has anything to do."""
        return all(core.is_idle for core in self._cores.values())

    def add(self, name: ModelName, core: Core) -> None:
        """Take a loaded model in."""
        assert name not in self._cores
        self._cores[name] = core

    def remove(self, name: ModelName) -> list[Event]:
        """Let a model and its memory go; its requests fail."""
        core = self._cores.pop(name, None)
        return [] if core is None else core.fail_all(EngineError(f"{name} was unloaded."))

    def submit(self, request: Request, *, submitted_s: float) -> list[Event]:
        """Queue a request with its model, the default one when it names none."""
        name = request.model or next(iter(self._cores), "")
        core = self._cores.get(name)
        if core is None:
            loaded = ", ".join(self._cores) or "none"
            error = ModelNotFound(f"{name} is not loaded.", hint=f"Loaded models: {loaded}.")
            return [FailEvent(request.id, error)]
        return core.submit(request, submitted_s=submitted_s)

    def cancel(self, request_id: RequestId) -> list[Event]:
        """End a request, wherever it is."""
        return [event for core in self._cores.values() for event in core.cancel(request_id)]

    def fail_all(self, error: LocalPagedError) -> list[Event]:
        """End every request of every model."""
        return [event for core in self._cores.values() for event in core.fail_all(error)]

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
            if not core.is_idle:
                self._turn = place + 1
                return core.step()
        return []

    def snapshots(self) -> dict[ModelName, EngineSnapshot]:
        """Return a picture of each model."""
        return {name: core.snapshot() for name, core in self._cores.items()}
