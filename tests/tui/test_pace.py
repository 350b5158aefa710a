"""What the screen takes of the time, it takes from the engine: it does not take much."""

from __future__ import annotations

import asyncio
import gc
import time
from itertools import pairwise

import pytest
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from localpaged.tui.collector import calm_collector
from localpaged.tui.coordinator import SHARE, SLOWEST_TICK_S, TICK_S, Coordinator
from localpaged.tui.widgets.bare_rows import has_bare_rows
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine


async def flush_times(*, busy_s: float, seconds: float) -> list[float]:
    """When a coordinator flushed that is busy for so long each time."""
    times: list[float] = []

    def flush() -> bool:
        times.append(time.monotonic())
        until_s = time.thread_time() + busy_s
        while time.thread_time() < until_s:
            pass
        return True

    running = asyncio.create_task(Coordinator(flush).run())
    await asyncio.sleep(seconds)
    running.cancel()
    return times


async def test_a_screen_that_costs_little_is_drawn_at_full_pace():
    times = await flush_times(busy_s=0.0, seconds=1.0)
    gaps = [b - a for a, b in pairwise(times)]
    assert min(gaps) >= TICK_S * 0.9
    assert sorted(gaps)[len(gaps) // 2] < TICK_S * 1.5


async def test_a_screen_that_costs_much_is_drawn_less_often_but_goes_on():
    busy_s = 0.015
    times = await flush_times(busy_s=busy_s, seconds=2.5)
    last_gap = times[-1] - times[-2]
    assert last_gap >= busy_s / SHARE * 0.8
    times = await flush_times(busy_s=0.2, seconds=3.0)
    assert times[-1] - times[-2] <= SLOWEST_TICK_S + 2.0


def cells_of(strips: list[Strip]) -> list[list[tuple[str, object, object]]]:
    """Each character as a terminal shows it: on a blank no one sees the colour of letters."""
    return [
        [
            (char, style.bgcolor, None if char == " " else style.clear_meta_and_links())
            for segment in strip
            for style in [segment.style or Style()]
            for char in segment.text
        ]
        for strip in strips
    ]


async def test_rows_without_borders_are_painted_as_textual_would():
    engine = ScriptedEngine([["**bold** `code` [x] ", "日本 \x1b[31m\n\n- a\n- b\n"] * 20])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            shown.app.commands.told["compare"]("n=2 tell")
            engine.wait_submitted(2)
            await shown.settle()
            await shown.step(30)
            for view in shown.app.screen.query("PaneView"):
                assert has_bare_rows(view)
                for crop in (Region(0, 0, *view.size), Region(3, 2, 20, 5)):
                    ours = view.render_lines(crop)
                    view._styles_cache.clear()
                    assert cells_of(ours) == cells_of(Widget.render_lines(view, crop))


async def test_the_chat_and_the_list_are_painted_as_textual_would_with_their_padding():
    engine = ScriptedEngine([["**bold** `code` [x] ", "日本 \x1b[31m\n\n- a\n- b\n"] * 20])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("q")
            await shown.step(20)
            for view in (shown.transcript, shown.sidebar):
                assert has_bare_rows(view) and view.styles.padding.top == 1
                for crop in (Region(0, 0, *view.outer_size), Region(3, 2, 20, 5)):
                    ours = view.render_lines(crop)
                    view._styles_cache.clear()
                    assert cells_of(ours) == cells_of(Widget.render_lines(view, crop))


@pytest.fixture
def collector():
    """Python's collector, as it was afterwards."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_what_stays_is_collected_no_more(collector):
    calm_collector()
    assert gc.get_freeze_count() > 1_000
    assert gc.get_threshold()[0] > 700
