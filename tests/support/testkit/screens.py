"""Running the chat UI in tests: over the real chat service and a scripted engine, headless."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from textual import events

from localpaged.chat.service import ChatService
from localpaged.store.store import Store
from localpaged.tui.app import LocalPagedApp
from localpaged.tui.glyphs import UNICODE, Glyphs
from testkit.fake_model import FakeChatModel

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from localpaged.chat.model import ChatModel
    from testkit.scripted_engine import ScriptedEngine

TIMEOUT_S = 10.0
SMALL, LARGE = (80, 24), (140, 40)


@contextmanager
def open_service(engine: ScriptedEngine) -> Iterator[ChatService]:
    """The real service over the history in LOCALPAGED_HOME and a scripted engine."""
    model: Future[ChatModel] = Future()
    model.set_result(FakeChatModel())
    service = ChatService(store=Store.open(), engine=engine, model=model)
    try:
        yield service
    finally:
        service.close()


@asynccontextmanager
async def running(
    service: ChatService, *, size: tuple[int, int] = SMALL, glyphs: Glyphs = UNICODE
) -> AsyncIterator[tuple[LocalPagedApp, Pilot[None]]]:
    """The app on a screen of `size`, its first chat shown."""
    app = LocalPagedApp(service, glyphs=glyphs)
    async with app.run_test(size=size, notifications=True) as pilot:
        await wait_until(pilot, lambda: app.is_opened)
        yield app, pilot


async def wait_until(
    pilot: Pilot[None], predicate: Callable[[], bool], *, timeout_s: float = TIMEOUT_S
) -> None:
    """Let the app work until `predicate` holds; fail with the screen when it never does."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError("never came true; the screen:\n" + screen_text(pilot.app))
        await pilot.pause()
        await asyncio.sleep(0.005)


async def wait_for_text(pilot: Pilot[None], text: str) -> None:
    """Wait until `text` stands somewhere on the screen."""
    await wait_until(pilot, lambda: text in screen_text(pilot.app))


def screen_lines(app: Any) -> list[str]:
    """What the terminal shows, row by row."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def screen_text(app: Any) -> str:
    """What the terminal shows."""
    return "\n".join(screen_lines(app))


async def paste(pilot: Pilot[None], text: str) -> None:
    """Paste as a terminal does: one event for the app."""
    pilot.app.post_message(events.Paste(text))
    await pilot.pause()
