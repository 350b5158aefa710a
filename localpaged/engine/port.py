"""The engine as everything above it sees it: the in-process thread, a scripted fake, a remote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from localpaged.engine.events import Event
from localpaged.engine.params import Request, RequestId
from localpaged.engine.snapshot import EngineSnapshot

Listener = Callable[[tuple[Event, ...]], None]
"""Called on the engine's thread with the events of one step. It may only enqueue: never wait."""


class EnginePort(Protocol):
    """Submit, cancel, watch. No call blocks; every outcome arrives as an event.

    Requests may be submitted while their model still loads: they wait in the queue.
    Each accepted request ends with exactly one FinishEvent or FailEvent.
    """

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` for every batch of events from now on."""

    def submit(self, request: Request) -> None:
        """Queue a request. A refusal arrives as FailEvent."""

    def cancel(self, request_id: RequestId) -> None:
        """End a request at the next step; unknown or finished ids are ignored."""

    def focus(self, chat_id: str) -> None:
        """Serve this chat before others from now on: the user looks at it."""

    def load(self, name: str) -> None:
        """Load a further model; nothing to do for one that is loaded or loads already.

        LoadEvents, then a ReadyEvent or LoadFailedEvent tell how it goes, each with the name.
        """

    def unload(self, name: str) -> None:
        """Let a model and its memory go; its requests fail, and UnloadedEvent follows."""

    def snapshot(self, model: str = "") -> EngineSnapshot:
        """Return the latest picture of a model, "" being the first; cheap, from any thread.

        That of a model that is not loaded is empty.
        """

    def close(self) -> None:
        """Cancel everything, free the model, and wait for the engine's thread to end."""
