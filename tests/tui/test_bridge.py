"""Events cross to the UI's loop; nobody waits and a flood wakes it once."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

from localpaged.chat.events import SavingRecovered
from localpaged.tui.bridge import EventBridge
from localpaged.tui.coordinator import TICK_S, Coordinator

EVENT = (SavingRecovered(),)


def flood(bridge: EventBridge) -> None:
    for _ in range(500):
        bridge.put(EVENT)


async def test_a_flood_of_events_wakes_the_loop_once():
    bridge, wakes = EventBridge(), []
    bridge.connect(asyncio.get_running_loop(), lambda: wakes.append(1))
    wakes.clear()
    threads = [threading.Thread(target=flood, args=(bridge,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    await asyncio.sleep(0)
    assert wakes == [1]
    assert len(bridge.drain()) == 1_500


async def test_events_after_a_drain_wake_it_again():
    bridge, wakes = EventBridge(), []
    bridge.connect(asyncio.get_running_loop(), lambda: wakes.append(1))
    wakes.clear()
    for _ in range(2):
        bridge.put(EVENT)
        await asyncio.sleep(0)
        assert bridge.drain() == list(EVENT)
    assert wakes == [1, 1]


async def test_events_before_there_is_a_ui_are_kept():
    bridge, wakes = EventBridge(), []
    bridge.put(EVENT)
    bridge.connect(asyncio.get_running_loop(), lambda: wakes.append(1))
    assert wakes == [1]
    assert bridge.drain() == list(EVENT)


def test_a_closed_loop_harms_nobody():
    bridge = EventBridge()
    loop = asyncio.new_event_loop()
    bridge.connect(loop, lambda: None)
    loop.close()
    bridge.put(EVENT)
    assert bridge.drain() == list(EVENT)


async def test_flushes_keep_their_distance_however_often_they_are_asked_for():
    loop = asyncio.get_running_loop()
    times: list[float] = []

    def flush() -> bool:
        times.append(loop.time())
        return False

    coordinator = Coordinator(flush)
    task = asyncio.create_task(coordinator.run())
    try:
        async with asyncio.timeout(5):
            while len(times) < 4:
                coordinator.wake()
                await asyncio.sleep(0)
    finally:
        task.cancel()
    assert all(b - a >= TICK_S * 0.9 for a, b in pairwise(times))
