"""Desk: requests from the server's loop to the engine's thread, and their events back."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from localpaged.engine.events import Event, FailEvent, FinishEvent, RequestEvent, TokenEvent
from localpaged.engine.params import Request, RequestId
from localpaged.engine.port import EnginePort

PACE_S = 0.025
"""Tokens wait this long at most for others to go out with: every wake-up takes time from steps."""


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
        self.is_over = _is_end(arrived.events)
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

    Invariant: `_open` has exactly the requests whose end was not told. Beginnings and ends are
    delivered at once; while `_is_paced`, tokens wait for the next delivery.
    """

    def __init__(self, engine: EnginePort, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._open: dict[RequestId, Ticket] = {}
        self._arrived: deque[dict[RequestId, Arrived]] = deque()
        self._streaming: set[RequestId] = set()  # the engine's thread alone looks at it
        self._is_paced = False

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
            self._arrived.append({id_: Arrived(now_s, tuple(told)) for id_, told in mine.items()})
            if self._is_urgent(mine) or not self._is_paced:
                self._loop.call_soon_threadsafe(self._flush)

    def _is_urgent(self, mine: dict[RequestId, list[RequestEvent]]) -> bool:
        """Whether something begins or ends, so that somebody waits for it."""
        is_urgent = False
        for request_id, events in mine.items():
            if all(isinstance(event, TokenEvent) for event in events):
                is_urgent |= request_id not in self._streaming
                self._streaming.add(request_id)
            else:
                is_urgent = True
            if _is_end(events):
                self._streaming.discard(request_id)
        return is_urgent

    def _flush(self) -> None:
        if self._deliver_all() and not self._is_paced:
            self._is_paced = True
            self._loop.call_later(PACE_S, self._go_on)

    def _go_on(self) -> None:
        if self._deliver_all():
            self._loop.call_later(PACE_S, self._go_on)
        else:
            self._is_paced = False
            self._flush()  # what came before the engine's thread could see that

    def _deliver_all(self) -> bool:
        has_any = bool(self._arrived)
        while self._arrived:
            for request_id, told in self._arrived.popleft().items():
                ticket = self._open.get(request_id)
                if ticket is not None:
                    ticket.put(told)
                    if ticket.is_over:
                        del self._open[request_id]
        return has_any


def _is_end(events: Iterable[RequestEvent]) -> bool:
    return any(
        isinstance(event, FailEvent) or (isinstance(event, FinishEvent) and event.is_last)
        for event in events
    )


def num_tokens_in(arrived: Arrived) -> int:
    """Return how many tokens were sampled in these events."""
    return sum(len(e.token_ids) for e in arrived.events if isinstance(e, TokenEvent))
