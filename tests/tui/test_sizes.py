"""Every screen lays itself out for a size, whatever it is, and rests, also while answers stream."""

from __future__ import annotations

import pytest
from textual.screen import Screen

from testkit.dashboards import dashboard
from testkit.doors import DOORS, go_back
from testkit.screens import SMALL, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.scripted_stats import ScriptedSource, model, snapshot

SIZES = [(1, 1), (5, 2), (20, 5), (300, 100), (3, 3)]
REST_S = 0.04
MOST_RESTS = 20


class Layouts:
    """Counts how often anything is laid out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        original = Screen._refresh_layout

        def counting(screen, *arguments, **options) -> None:
            self.count += 1
            original(screen, *arguments, **options)

        monkeypatch.setattr(Screen, "_refresh_layout", counting)

    async def come_to_rest(self, pilot, what: str) -> None:
        for _ in range(MOST_RESTS):
            before = self.count
            await pilot.pause(REST_S)
            if self.count == before:
                return
        raise AssertionError(f"{what} lays itself out for ever")


@pytest.mark.parametrize("door", ["", *DOORS])
async def test_any_screen_of_the_chat_comes_to_rest_at_any_size(monkeypatch, door):
    engine = ScriptedEngine([["**word** ", "`code`\n\n", "- 漢字\n"] * 400])
    layouts = Layouts(monkeypatch)
    with open_service(engine) as service:
        async with stage(service, engine, size=SMALL) as shown:
            await shown.ask("q")
            await shown.step(30)
            if door == "tokens":
                await shown.answer()  # they are measured when it is whole
            if door:
                await DOORS[door](shown)
            for size in SIZES:
                await shown.resize(*size)
                await shown.step(2)
                await layouts.come_to_rest(shown.pilot, f"{door or 'chat'} at {size}")
            await shown.resize(*SMALL)
            await go_back(shown)
            assert shown.dialog is None and "KV" in shown.text


@pytest.mark.parametrize("key", ["", "f1", "c", "m", "t"])
async def test_any_view_of_the_dashboard_comes_to_rest_at_any_size(monkeypatch, key):
    layouts = Layouts(monkeypatch)
    async with dashboard(ScriptedSource(a=snapshot(4_121, model())), size=SMALL) as shown:
        if key:
            await shown.press(key)
        for size in SIZES:
            await shown.pilot.resize_terminal(*size)
            await layouts.come_to_rest(shown.pilot, f"{key or 'dashboard'} at {size}")
