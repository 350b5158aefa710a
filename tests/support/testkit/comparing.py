"""The compare screen in tests, begun with a command, over a scripted engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from localpaged.engine.params import Request
from localpaged.tui.screens.compare import CompareScreen
from localpaged.tui.widgets.status_line import StatusLine
from testkit.fake_shelf import FakeShelf
from testkit.screens import LARGE, Stage, open_service, stage
from testkit.scripted_engine import Answer, ScriptedEngine


def by_seed(request: Request) -> list[str]:
    """Answers of one model differ in one word, those of two in all."""
    words = [f"{request.model or 'default'}-{n} " for n in range(12)]
    return [*words[:3], f"own{request.sampling.seed} ", *words[3:]]


@asynccontextmanager
async def comparing(
    command: str,
    *,
    size: tuple[int, int] = LARGE,
    script: Callable[[Request], Answer | list[str]] = by_seed,
    before: str = "",
    **options: Any,
) -> AsyncIterator[tuple[Stage, CompareScreen]]:
    """A compare that was begun with a command, its requests with the engine."""
    engine = ScriptedEngine(script)
    shelf = FakeShelf("fake-model", "other")
    with open_service(engine, shelf=shelf) as service:
        async with stage(service, engine, size=size, **options) as shown:
            if before:
                await shown.ask(before)
                await shown.answer()
            await shown.write(command)
            await shown.press("enter" if command.startswith("/") else "ctrl+l")
            screen = shown.app.screen
            assert isinstance(screen, CompareScreen), shown.text
            await submitted(shown, len(screen.model.panes))
            yield shown, screen


async def submitted(shown: Stage, count: int) -> None:
    """Wait until the engine has that many requests."""
    before = 1 if shown.app.workspace.sessions and not shown.engine.submitted else 0
    await shown.until(lambda: len(shown.engine.submitted) >= count + before)


async def finish(shown: Stage, screen: CompareScreen) -> None:
    """Let the engine finish everything, and wait until the screen has seen it."""
    shown.engine.run_until_idle()
    await shown.until(lambda: not screen.model.is_running)
    await shown.step()


def heads(screen: CompareScreen) -> list[str]:
    """The line above each pane."""
    lines = screen.query(".pane-head").results(StatusLine)
    return [" ".join(line.plain.lstrip("› ").split()) for line in lines]


def texts(screen: CompareScreen) -> list[str]:
    """The newest answer of each pane."""
    return [pane.last.text if pane.last else "" for pane in screen.model.panes]
