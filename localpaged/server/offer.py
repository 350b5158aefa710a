"""Offer: which models the server answers with: those that the engine has loaded."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass

from localpaged.chat.models import ModelShelf, opening_error
from localpaged.engine.events import (
    EngineFailedEvent,
    Event,
    LoadEvent,
    LoadFailedEvent,
    ReadyEvent,
    UnloadedEvent,
)
from localpaged.errors import LocalPagedError
from localpaged.prompt import ChatModel
from localpaged.server.errors import SERVER, ApiError, is_loading, no_such_model


@dataclass(frozen=True, slots=True)
class Served:
    """A loaded model; the engine knows it as `engine_name`. `created_s` is when it was loaded."""

    name: str
    engine_name: str
    model: ChatModel
    context_length: int
    created_s: int


class Offer:
    """What is served. Told by the engine's thread, read by any: every change is one assignment.

    Invariant: `_ready` has the loaded models by the engine's names, "" being the default one.
    """

    def __init__(self, default: Future[ChatModel], shelf: ModelShelf) -> None:
        self._default = default
        self._shelf = shelf
        self._ready: dict[str, tuple[ReadyEvent, int]] = {}
        self._loading: dict[str, LoadEvent] = {}
        self.failure: LocalPagedError | None = None

    def on_events(self, events: tuple[Event, ...]) -> None:
        """Note what loads, is loaded or gone. Engine's thread."""
        for event in events:
            match event:
                case LoadEvent():
                    self._loading[event.model_name] = event
                case ReadyEvent():
                    # the engine loads the default model before any other
                    name = event.model_name if self._ready else ""
                    self._ready[name] = (event, int(time.time()))
                    self._loading.pop(name, None)
                case LoadFailedEvent() | UnloadedEvent():
                    self._ready.pop(event.model_name, None)
                    self._loading.pop(event.model_name, None)
                case EngineFailedEvent():
                    self.failure = event.error

    @property
    def is_ready(self) -> bool:
        """Whether the default model answers."""
        return "" in self._ready and self.failure is None

    @property
    def stage(self) -> str:
        """What the default model's loading is at; "" when it is not loading."""
        event = self._loading.get("")
        if event is None:
            return ""
        return f"{event.stage} {event.done / event.total:.0%}" if event.total else event.stage

    def served(self) -> list[Served]:
        """Return every model that can be asked now, the default one first."""
        found = [self._served(name) for name in sorted(self._ready)]
        return [served for served in found if served is not None]

    def find(self, name: str) -> Served:
        """Return the model of that name. Raises ApiError: unknown, loading or gone."""
        if self.failure is not None:
            raise ApiError(503, self.failure.message, type=SERVER, code="engine_stopped")
        served = self.served()
        for each in served:
            if each.name == name:
                return each
        if self._is_loading(name):
            raise is_loading(name)
        raise no_such_model(name, [each.name for each in served])

    def _served(self, engine_name: str) -> Served | None:
        opened = self._opened(engine_name)
        if opened is None or engine_name not in self._ready:
            return None
        ready, created_s = self._ready[engine_name]
        model = opened.result()
        return Served(model.name, engine_name, model, ready.context_length, created_s)

    def _is_loading(self, name: str) -> bool:
        if name in self._loading:
            return True
        if "" in self._ready:
            return False
        opened = self._opened("")
        # as long as the file is not open nobody knows what the default model is called
        return opened is None or opened.result().name == name

    def _opened(self, engine_name: str) -> Future[ChatModel] | None:
        try:
            opened = self._shelf.open(engine_name) if engine_name else self._default
        except LocalPagedError:
            return None  # its file was taken away while it is loaded
        return opened if opened.done() and opening_error(opened) is None else None
