"""Running the chat UI in tests: over the real chat service and a scripted engine, headless."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual import events
from textual.keys import _character_to_key

from localpaged.chat.service import ChatService
from localpaged.store.store import Store
from localpaged.tui.app import LocalPagedApp
from localpaged.tui.glyphs import UNICODE, Glyphs
from localpaged.tui.session import Answer
from localpaged.tui.widgets.prompt import Prompt
from localpaged.tui.widgets.sidebar import Sidebar
from localpaged.tui.widgets.transcript import Transcript
from testkit.fake_model import FakeChatModel

if TYPE_CHECKING:
    from textual.pilot import Pilot
    from textual.screen import Screen

    from localpaged.prompt import ChatModel
    from testkit.scripted_engine import ScriptedEngine

TIMEOUT_S = 30.0
SMALL, LARGE = (80, 24), (140, 40)


@contextmanager
def open_service(engine: ScriptedEngine, **options: Any) -> Iterator[ChatService]:
    """The real service over the history in LOCALPAGED_HOME and a scripted engine.

    `options` are the service's own.
    """
    model: Future[ChatModel] = Future()
    model.set_result(FakeChatModel())
    service = ChatService(store=Store.open(), engine=engine, **{"model": model, **options})
    try:
        yield service
    finally:
        service.close()


@dataclass
class Stage:
    """A running app with everything behind it; the test drives the engine."""

    app: LocalPagedApp
    pilot: Pilot[None]
    service: ChatService
    engine: ScriptedEngine

    @property
    def prompt(self) -> Prompt:
        """Where the user writes."""
        return self.app.chat.prompt

    @property
    def transcript(self) -> Transcript:
        """Where the user reads."""
        return self.app.chat.transcript

    @property
    def sidebar(self) -> Sidebar:
        """The list of chats."""
        return self.app.chat.sidebar

    @property
    def last_answer(self) -> Answer:
        """The newest answer of the chat that is shown."""
        answer = self.app.workspace.current.last_answer
        assert answer is not None, "there is no answer"
        return answer

    @property
    def dialog(self) -> Screen[Any] | None:
        """What lies over the chat."""
        screen: Screen[Any] = self.app.screen
        return None if screen is self.app.chat else screen

    @property
    def text(self) -> str:
        """What the terminal shows."""
        return screen_text(self.app)

    async def press(self, *keys: str) -> None:
        """Press keys one after another, each when the one before has done its work."""
        for key in keys:
            await self.burst(key)

    async def burst(self, *keys: str) -> None:
        """Press keys as fast as a terminal can send them, and wait for what they do."""
        for key in keys:
            self.app.post_message(key_event(key))
        await self.settle()
        # an app that was left hands on no more keys
        await self.until(lambda: self.app.typist.is_idle or self.app._exit)
        await self.settle()
        await self.settle()

    async def settle(self) -> None:
        """Let every message that is under way arrive, and draw; waits for no timer."""
        await self.pilot.pause(0)

    async def write(self, text: str) -> None:
        """Type into the prompt, at once."""
        self.prompt.focus()
        self.prompt.insert(text)
        await self.settle()

    async def say(self, text: str) -> None:
        """Type a line into the prompt and press Enter."""
        await self.write(text)
        await self.press("enter")

    async def ask(self, text: str) -> None:
        """Send a message and wait until the engine has it."""
        before = len(self.engine.submitted)
        await self.say(text)
        await self.until(lambda: len(self.engine.submitted) > before)

    async def answer(self) -> None:
        """Let the engine finish everything, and wait until the app has seen it."""
        self.engine.run_until_idle()
        await self.until(self._is_all_seen)
        await self.beat()

    def _is_all_seen(self) -> bool:
        self.app.beat()  # rather than wait for the app's own
        return not self.app.workspace.running

    async def step(self, count: int = 1) -> None:
        """Let the engine make a few steps, and the app draw them."""
        for _ in range(count):
            self.engine.step()
        await self.beat()

    async def beat(self) -> None:
        """Let the app take all events and draw."""
        self.app.beat()
        await self.settle()

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Wait for a condition."""
        await wait_until(self.pilot, predicate)

    async def until_shown(self, text: str) -> None:
        """Wait for a text on the screen."""
        await self.until(lambda: text in self.text)

    async def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        await self.pilot.resize_terminal(width, height)
        await self.settle()


@asynccontextmanager
async def stage(
    service: ChatService,
    engine: ScriptedEngine,
    *,
    size: tuple[int, int] = SMALL,
    glyphs: Glyphs = UNICODE,
    is_loaded: bool = True,
    **options: Any,
) -> AsyncIterator[Stage]:
    """The app over `service`, with handles for a test; the model is loaded unless told."""
    async with running(service, size=size, glyphs=glyphs, **options) as (app, pilot):
        shown = Stage(app, pilot, service, engine)
        if is_loaded:
            engine.load()
            await shown.beat()
        yield shown


@asynccontextmanager
async def running(
    service: ChatService,
    *,
    size: tuple[int, int] = SMALL,
    glyphs: Glyphs = UNICODE,
    **options: Any,
) -> AsyncIterator[tuple[LocalPagedApp, Pilot[None]]]:
    """The app on a screen of `size`, its first chat shown; `options` are the app's own."""
    app = LocalPagedApp(service, glyphs=glyphs, **options)
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
        await pilot.pause(0.005)


def last_text(service: ChatService, chat_id: str) -> str:
    """The text of a chat's last message in the history."""
    message = service.transcript(chat_id)[-1].message
    assert message is not None, "the last answer is not in the history yet"
    return message.text


def screen_lines(app: Any) -> list[str]:
    """What the terminal shows, row by row."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def screen_text(app: Any) -> str:
    """What the terminal shows."""
    return "\n".join(screen_lines(app))


async def paste(pilot: Pilot[None], text: str) -> None:
    """Paste as a terminal does: one event for the app."""
    app = pilot.app
    assert isinstance(app, LocalPagedApp)
    app.post_message(events.Paste(text))
    await pilot.pause(0)
    await wait_until(pilot, lambda: app.typist.is_idle)
    await pilot.pause(0)


def key_event(key: str) -> events.Key:
    """A key as the terminal's driver sends it: a name of Textual's, or one character."""
    if len(key) == 1:
        name = key if key.isalnum() else _character_to_key(key)
        return events.Key(name, key)
    return events.Key(key, {"space": " ", "backslash": "\\"}.get(key))
