"""The engine as everything above it sees it: the in-process thread, a scripted fake, a remote."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from localpaged.engine.events import Event
from localpaged.engine.inspection import BlockTokens, Inspection, PinView
from localpaged.engine.params import Request, RequestId
from localpaged.engine.snapshot import EngineSnapshot

CLOSED = "The engine was closed."
"""What an engine that ends as it should tells whoever still waits."""
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

    def inspect(self, model: str = "") -> Future[Inspection]:
        """Look at every block of a model's KV memory between two steps.

        This and the following futures end with EngineStopped when the engine ends, and with
        ModelNotFound for a model that is not loaded; they wait while the first one loads. Their
        callbacks run on the engine's thread: they may only enqueue.
        """

    def block_tokens(self, block: int, model: str = "") -> Future[BlockTokens | None]:
        """Return the tokens of one block of an Inspection; None when it has none any more."""

    def pin(self, key: str, token_ids: tuple[int, ...], model: str = "") -> Future[PinView]:
        """Keep the full blocks of a prefix until `key` is unpinned; NoRoom tells the numbers.

        Blocks that do not exist, or only in host memory, are held as soon as a prompt brings them.
        """

    def pin_branch(self, key: str, node_id: int, model: str = "") -> Future[PinView]:
        """Keep the prefix that ends with a branch of the prefix tree, likewise."""

    def unpin(self, key: str, model: str = "") -> Future[PinView]:
        """Let a pinned prefix be evicted again; tells what was pinned, perhaps nothing."""

    def evict(self, node_id: int, offset: int = 0, model: str = "") -> Future[int]:
        """Evict what nobody holds of a branch from its block `offset` on and of all below it.

        Returns how many blocks came free; none of a branch that is gone.
        """

    def close(self) -> None:
        """Cancel everything, free the model, and wait for the engine's thread to end."""
