"""The one pace of the UI: events are taken and the screen is flushed at most ten times a second.

What the screen computes the engine does not: they share processor and interpreter. So where a
flush and the painting after it take long, as with many panes, the next one waits longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, thread_time

TICK_S = 0.1
SLOWEST_TICK_S = 0.5
SHARE = 0.035
"""Of the time, what flushing and painting may take at most before the pace falls."""
IDLE_S = 0.5


class Coordinator:
    """Calls `flush` soon after `wake`, every tick while something moves, else every IDLE_S.

    A tick is TICK_S, and longer when the thread was busy since the flush before.

    `flush` returns whether something on the screen moves by itself (a spinner, a rate).
    """

    def __init__(self, flush: Callable[[], bool]) -> None:
        self._flush = flush
        self._woken = asyncio.Event()
        self._last_flush_s = 0.0
        self._tick_s = TICK_S
        self._busy_from_s = 0.0

    def wake(self) -> None:
        """Flush as soon as the pace allows. UI thread only."""
        self._woken.set()

    async def run(self) -> None:
        """Flush for ever; the app cancels it at its end."""
        is_moving = True
        self._busy_from_s = thread_time()  # what it took to get here is not drawing
        while True:
            try:
                async with asyncio.timeout(self._tick_s if is_moving else IDLE_S):
                    await self._woken.wait()
            except TimeoutError:
                pass
            early_s = self._last_flush_s + self._tick_s - monotonic()
            if early_s > 0:
                await asyncio.sleep(early_s)
            self._woken.clear()
            self._last_flush_s = monotonic()
            self._pace()
            is_moving = self._flush()

    def _pace(self) -> None:
        """Choose the tick by what the last flush, its painting and all since took."""
        busy_s = thread_time() - self._busy_from_s
        self._busy_from_s += busy_s
        wanted_s = min(SLOWEST_TICK_S, max(TICK_S, busy_s / SHARE))
        # half of the way, so that one long moment does not halt what streams
        self._tick_s += (wanted_s - self._tick_s) / 2
