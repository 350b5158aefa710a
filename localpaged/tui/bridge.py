"""From the threads where chat events happen to the UI's loop, without ever making them wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localpaged.chat.events import ChatEvent


class EventBridge:
    """Collects events on any thread, hands them out on the UI's.

    Invariant: while `_is_armed` a wake-up is on its way, so a flood of events wakes the loop once.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[ChatEvent, ...]] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: Callable[[], None] = _nobody
        self._is_armed = False

    def connect(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        """From now on call `wake` on `loop` when events arrive, and once for those that have."""
        self._wake = wake
        self._loop = loop
        wake()

    def put(self, events: tuple[ChatEvent, ...]) -> None:
        """Enqueue, and wake the UI unless that is under way. Any thread; never blocks."""
        self._queue.put(events)
        loop = self._loop
        if self._is_armed or loop is None:
            return
        self._is_armed = True
        try:
            loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # the loop is closed: the app has ended and nobody reads events any more
            self._loop = None

    def drain(self) -> list[ChatEvent]:
        """Take what has arrived. UI thread only."""
        # first disarm: what comes after the last get below wakes the loop again
        self._is_armed = False
        events: list[ChatEvent] = []
        while True:
            try:
                events.extend(self._queue.get_nowait())
            except Empty:
                return events

    def close(self) -> None:
        """Wake nobody any more."""
        self._loop = None


def _nobody() -> None:
    """Before there is a UI nobody is woken."""
