"""Desk: requests from the server's loop to the engine's thread, and their events back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from localpaged.engine.events import Event, FailEvent, FinishEvent, RequestEvent, TokenEvent
from localpaged.engine.params import Request, RequestId
from localpaged.engine.port import EnginePort


@dataclass(frozen=True, slots=True)
class Arrived:
    """Events of one step and when the engine told them, on the clock of `time.perf_counter`."""

    at_s: float
    events: tuple[RequestEvent, ...]


class Ticket:
    """One request in the engine. Loop's thread only.

    Invariant: what waits in `_pending` was not taken yet, and is no more than one request's
    tokens, which the context bounds: a reader that is slow holds up nobody.
    """

    def __init__(self, request: Request, cancel: Callable[[], None]) -> None:
        self.request = request
        self.is_over = False
        self._cancel = cancel
        self._pending: list[Arrived] = []
        self._news = asyncio.Event()

    def put(self, arrived: Arrived) -> None:
        """Take what the engine told."""
        last = arrived.events[-1]
        self.is_over = isinstance(last, FailEvent) or (
            isinstance(last, FinishEvent) and last.is_last
        )
        self._pending.append(arrived)
        self._news.set()

    async def wait(self) -> RequestEvent:
        """Return the first event that was not taken yet, which it stays."""
        await self._news.wait()
        return self._pending[0].events[0]

    async def take(self) -> list[Arrived]:
        """Return all that came since the last time; wait until something does."""
        await self._news.wait()
        self._news.clear()
        taken, self._pending = self._pending, []
        return taken

    def close(self) -> None:
        """Nobody reads on: end the request at the engine's next step, unless it is over."""
        if not self.is_over:
            self._cancel()


class Desk:
    """Made on any thread; everything but `on_events` belongs to the loop's thread.

    Invariant: `_open` has exactly the requests whose end was not told.
    """

    def __init__(self, engine: EnginePort, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._open: dict[RequestId, Ticket] = {}
        self._has_ended = asyncio.Event()

    @property
    def num_open(self) -> int:
        """Requests that the engine has not ended."""
        return len(self._open)

    def submit(self, request: Request) -> Ticket:
        """Hand a request to the engine."""
        ticket = Ticket(request, lambda: self._engine.cancel(request.id))
        self._open[request.id] = ticket
        self._engine.submit(request)
        return ticket

    def cancel_all(self) -> None:
        """End every request at the engine's next step."""
        for ticket in list(self._open.values()):
            ticket.close()

    def on_events(self, events: tuple[Event, ...]) -> None:
        """Pass on what is the server's own. Engine's thread; it only enqueues."""
        if not self._open:
            return
        mine: dict[RequestId, list[RequestEvent]] = {}
        for event in events:
            if isinstance(event, RequestEvent) and event.request_id in self._open:
                mine.setdefault(event.request_id, []).append(event)
        if mine and not self._loop.is_closed():
            now_s = time.perf_counter()
            arrived = {id_: Arrived(now_s, tuple(told)) for id_, told in mine.items()}
            self._loop.call_soon_threadsafe(self._deliver, arrived)

    def _deliver(self, arrived: dict[RequestId, Arrived]) -> None:
        for request_id, told in arrived.items():
            ticket = self._open.get(request_id)
            if ticket is None:
                continue
            ticket.put(told)
            if ticket.is_over:
                del self._open[request_id]


def num_tokens_in(arrived: Arrived) -> int:
    """Return how many tokens were sampled in these events."""
    return sum(len(e.token_ids) for e in arrived.events if isinstance(e, TokenEvent))
