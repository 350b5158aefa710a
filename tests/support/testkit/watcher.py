"""A listener that collects an engine's events and waits for one that fits."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from localpaged.engine.events import Event, FailEvent, FinishEvent


class Watcher:
    """Called on the engine's thread, asked on the test's."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def __call__(self, batch: tuple[Event, ...]) -> None:
        for event in batch:
            self._queue.put(event)

    def wait(self, fits: Callable[[Event], bool]) -> Any:
        while True:
            event = self._queue.get(timeout=20)
            self.events.append(event)
            if fits(event):
                return event

    def end_of(self, name: str) -> Any:
        return self.wait(lambda e: isinstance(e, (FinishEvent, FailEvent)) and e.request_id == name)

    def ends(self, name: str) -> list[Any]:
        return [
            e
            for e in self.events
            if isinstance(e, (FinishEvent, FailEvent)) and e.request_id == name
        ]
