"""Dialogs leave nothing behind, however often they are opened."""

from __future__ import annotations

import gc

import pytest
from textual.style import Style
from textual.widget import Widget

from localpaged.tui import dead_parts
from localpaged.tui.app import LocalPagedApp
from testkit.doors import DOORS, go_back
from testkit.screens import Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine

WARM_UP, ROUNDS = 3, 6
MOST_OBJECTS_A_ROUND = 150
"""A dialog has thousands; asyncio and Python's caches keep a few for a while."""


async def _rounds(shown: Stage, door: str, count: int) -> tuple[int, int]:
    """Open and close; return how many objects and how many parts there are then."""
    for _ in range(count):
        await DOORS[door](shown)
        if door in ("compare", "diff"):
            await shown.answer()
        await go_back(shown)
        await shown.beat()
    # timers that were cancelled hold what they would have called until they are due
    await shown.pilot.pause(0.6)
    gc.collect()
    objects = gc.get_objects()
    return len(objects), sum(issubclass(type(each), Widget) for each in objects)


@pytest.mark.parametrize("door", ["help", "options", "palette", "blocks", "history", "rename"])
async def test_what_a_closed_screen_left_is_gone(door):
    engine = ScriptedEngine([["word "] * 12])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("q")
            await shown.answer()
            objects, widgets = await _rounds(shown, door, WARM_UP)
            more_objects, more_widgets = await _rounds(shown, door, ROUNDS)
    assert more_widgets < widgets + ROUNDS // 2
    assert more_objects - objects < ROUNDS * MOST_OBJECTS_A_ROUND


async def test_it_is_collected_when_a_screen_closes_and_nothing_streams(monkeypatch):
    engine = ScriptedEngine([["word "] * 60])
    collected: list[int] = []
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            monkeypatch.setattr(LocalPagedApp, "is_headless", False)
            monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
            await shown.beat()
            assert not collected
            await shown.ask("q")
            await shown.step(5)
            await shown.press("f1", "escape")
            await shown.beat()
            assert not collected, "an answer streams"
            await shown.answer()
            await shown.beat()
            await shown.beat()
            assert collected == [1]


async def test_while_something_moves_it_is_collected_once_for_many_screens(monkeypatch):
    engine = ScriptedEngine([["word "] * 60])
    collected: list[int] = []
    monkeypatch.setattr(dead_parts, "MOST_LEFT", 3)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            monkeypatch.setattr(LocalPagedApp, "is_headless", False)
            monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
            await shown.ask("q")
            await shown.step(5)
            for count in range(1, 7):
                await shown.press("f1", "escape")
                await shown.beat()
                assert len(collected) == count // 3


def test_grounds_are_styles_of_their_two_colours():
    from textual._styles_cache import StylesCache
    from textual.color import Color

    from localpaged.tui.dead_parts import keep_styles_by_colour

    keep_styles_by_colour()
    base, veil = Color(10, 20, 30), Color(200, 100, 0, 0.5)
    grounds = StylesCache().get_inner_outer(base, veil)
    assert grounds == (Style(background=base + veil), Style(background=base))
