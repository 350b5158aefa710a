"""Further models of a scripted engine: loaded, or refused, at the step after they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localpaged.engine.events import (
    Event,
    LoadEvent,
    LoadFailedEvent,
    ReadyEvent,
    UnloadedEvent,
)
from localpaged.errors import EngineError, LocalPagedError


class ScriptedModels:
    """Which further models there are. `load_errors` keep those from loading; tests set them.

    `holds_back` keeps models loading until it is taken away.
    """

    def __init__(self, stages: Sequence[LoadEvent], ready: ReadyEvent) -> None:
        self.asked: list[str] = []
        self.loaded: set[str] = set()
        self.load_errors: dict[str, LocalPagedError] = {}
        self.holds_back = False
        self._stages = stages
        self._ready = ready
        self._loading: list[str] = []
        self._unloading: list[str] = []

    @property
    def has_work(self) -> bool:
        """Whether the next step changes something."""
        return bool(self._unloading or (self._loading and not self.holds_back))

    def ask(self, name: str) -> None:
        """Load a model at the next step, unless it is there or loads."""
        self.asked.append(name)
        if name not in self.loaded and name not in self._loading:
            self._loading.append(name)

    def drop(self, name: str) -> None:
        """Unload a model at the next step."""
        self._unloading.append(name)

    def is_known(self, name: str) -> bool:
        """Whether requests for it are taken: the default model, a loaded one or one that loads."""
        return not name or name in self.loaded or name in self._loading

    def step(self) -> tuple[list[Event], dict[str, LocalPagedError]]:
        """Load and unload; return what is told, and why requests for which models fail."""
        events: list[Event] = []
        failed: dict[str, LocalPagedError] = {}
        for name in self._unloading:
            self.loaded.discard(name)
            failed[name] = EngineError(f"{name} was unloaded.")
            events.append(UnloadedEvent(name))
        self._unloading.clear()
        for name in self._loading:
            events += [replace(stage, model_name=name) for stage in self._stages]
            if self.holds_back:
                continue
            if (error := self.load_errors.get(name)) is not None:
                failed[name] = error
                events.append(LoadFailedEvent(name, error))
            else:
                self.loaded.add(name)
                events.append(replace(self._ready, model_name=name))
        if not self.holds_back:
            self._loading.clear()
        return events, failed
