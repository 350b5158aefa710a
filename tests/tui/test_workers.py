"""What goes on beside the UI ends with the part it works for, and touches nothing that is gone."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets import Static

from localpaged.tui.app import LocalPagedApp
from localpaged.tui.compositor import OwnScreen
from localpaged.tui.workers import begin
from testkit.screens import LARGE, open_service, stage, wait_until
from testkit.scripted_engine import ScriptedEngine


class _Waiting(OwnScreen[None]):
    """A screen whose worker draws when `answered` is set, as one that reads from the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()
        self.steps: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("part")

    def on_mount(self) -> None:
        begin(self, self._work, name="work")

    async def _work(self) -> None:
        try:
            self.steps.append("begun")
            await self.answered.wait()
            self.steps.append(f"drawn on {self.query_one(Static).screen}")
        finally:
            self.steps.append("left")


async def test_a_worker_goes_on_while_its_screen_is_there():
    async with App[None]().run_test() as pilot:
        screen = _Waiting()
        await pilot.app.push_screen(screen)
        await wait_until(pilot, lambda: bool(screen.steps))
        screen.answered.set()
        await wait_until(pilot, lambda: len(screen.steps) == 3)
        assert screen.steps == ["begun", f"drawn on {screen}", "left"]


async def test_a_worker_whose_screen_goes_is_left_where_it_waits():
    async with App[None]().run_test() as pilot:
        screen = _Waiting()
        await pilot.app.push_screen(screen)
        await wait_until(pilot, lambda: bool(screen.steps))
        # the answer is there before the screen's parts have gone
        closing = pilot.app.pop_screen()
        screen.answered.set()
        await closing
        await wait_until(pilot, lambda: len(screen.steps) > 1)
        assert screen.steps == ["begun", "left"]


async def test_a_worker_of_an_app_that_ends_is_left_where_it_waits():
    steps: list[str] = []
    answered = asyncio.Event()

    async def work() -> None:
        try:
            await answered.wait()
            steps.append("drawn")
        finally:
            steps.append("left")

    async with App[None]().run_test() as pilot:
        begin(pilot.app, work, name="work")
        await pilot.pause()
        answered.set()
    assert steps in (["left"], ["drawn", "left"])
    async with App[None]().run_test() as pilot:
        steps.clear()
        answered.clear()
        begin(pilot.app, work, name="work")
        await pilot.pause()
        pilot.app.exit()
        answered.set()
    assert steps == ["left"]


@pytest.mark.parametrize("key", ["", "f3", "f6", "f1", "f4"])
async def test_what_is_being_taken_down_is_not_drawn(monkeypatch, key):
    engine = ScriptedEngine([["word "] * 400])
    beats: list[bool] = []
    original = Widget._message_loop_exit

    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("q")
            await shown.step(30)
            app = shown.app
            assert isinstance(app, LocalPagedApp)
            if key:
                await shown.press(key)

            async def going(widget: Widget) -> None:
                await original(widget)
                # as the coordinator does, at any moment
                engine.step()
                beats.append(app.beat())

            monkeypatch.setattr(Widget, "_message_loop_exit", going)
    assert len(beats) > 5
