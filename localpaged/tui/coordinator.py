"""The one pace of the UI: events are taken and the screen is flushed at most ten times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

TICK_S = 0.1
IDLE_S = 0.5


class Coordinator:
    """Calls `flush` soon after `wake`, every TICK_S while something moves, else every IDLE_S.

    `flush` returns whether something on the screen moves by itself (a spinner, a rate).
    """

    def __init__(self, flush: Callable[[], bool]) -> None:
        self._flush = flush
        self._woken = asyncio.Event()
        self._last_flush_s = 0.0

    def wake(self) -> None:
        """Flush as soon as the pace allows. UI thread only."""
        self._woken.set()

    async def run(self) -> None:
        """Flush for ever; the app cancels it at its end."""
        is_moving = True
        while True:
            try:
                async with asyncio.timeout(TICK_S if is_moving else IDLE_S):
                    await self._woken.wait()
            except TimeoutError:
                pass
            early_s = self._last_flush_s + TICK_S - monotonic()
            if early_s > 0:
                await asyncio.sleep(early_s)
            self._woken.clear()
            self._last_flush_s = monotonic()
            is_moving = self._flush()
