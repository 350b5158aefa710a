"""Running the dashboard in tests, headless, over programs that a test makes up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from textual.pilot import Pilot

from localpaged.tui.stats.app import StatsApp
from localpaged.tui.stats.screen import StatsScreen
from testkit.screens import SMALL, key_event, screen_lines, screen_text, wait_until
from testkit.scripted_stats import NOON_S, ScriptedSource

NEVER_S = 3_600.0
"""A dashboard that looks by itself only at its start: else a test tells it to."""


@dataclass
class Dashboard:
    """A running dashboard; the test tells it when to look, and what time it is."""

    app: StatsApp
    pilot: Pilot[None]
    source: ScriptedSource
    clock: list[float]

    @property
    def screen(self) -> StatsScreen:
        """The one screen, whatever lies over it."""
        return self.app.stats

    @property
    def text(self) -> str:
        """What the terminal shows."""
        return screen_text(self.app)

    @property
    def lines(self) -> list[str]:
        """What the terminal shows, row by row."""
        return screen_lines(self.app)

    async def look(self) -> None:
        """Let it look once, and draw."""
        await self.screen.look()
        await self.settle()

    async def beat(self) -> None:
        """The same, as pictures of screens call it."""
        await self.look()

    async def press(self, *keys: str) -> None:
        """Press keys one after another, and let it look at what they want to be seen."""
        for key in keys:
            self.app.post_message(key_event(key))
            await self.settle()
        if self.app.is_running and not self.screen.watched.is_paused:
            await self.look()

    async def settle(self) -> None:
        """Let every message that is under way arrive, and draw."""
        for _ in range(3):
            await self.pilot.pause(0)

    async def until_shown(self, text: str) -> None:
        """Wait for a text on the screen."""
        await wait_until(self.pilot, lambda: text in self.text)

    async def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        await self.pilot.resize_terminal(width, height)
        await self.look()


@asynccontextmanager
async def dashboard(
    source: ScriptedSource, *, size: tuple[int, int] = SMALL, **options: Any
) -> AsyncIterator[Dashboard]:
    """The dashboard over `source`, which it has looked at once; `options` are the app's own."""
    clock = [NOON_S]
    options = {"interval_s": NEVER_S, **options}
    app = StatsApp(source, clock_s=lambda: clock[0], **options)
    async with app.run_test(size=size, notifications=True) as pilot:
        shown = Dashboard(app, pilot, source, clock)
        await shown.settle()
        await shown.look()
        yield shown
