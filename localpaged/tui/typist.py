"""Hands the app one key after another, each when the one before has done all its work.

Textual forwards keys to the focused widget at once, but a widget's bindings act only after the key
has travelled up to the app, and what they post travels again: in a burst the letters behind Enter
or Backspace would overtake it, and those meant for the prompt would reach a closing dialog. So a
key that is not text is followed by a fence, a message on the same way, and the next waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

if TYPE_CHECKING:
    from typing import Any

    from textual.app import App
    from textual.widget import Widget

# how often it is looked whether a fence was lost with the dialog that it stood in
LOST_CHECK_S = 0.02


class Fence(Message, bubble=True):
    """Arrives at the app when everything that its sender got before has been handled."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = asyncio.Event()


class Typist:
    """A queue of keys and pastes in front of the app. UI thread only.

    Invariant: while `_is_text_under_way` only text went to the focused widget since the last fence.
    """

    def __init__(self, app: App[Any], forward: Callable[[events.Event], Awaitable[None]]) -> None:
        """`forward` is the app's own way to handle an event."""
        self._app = app
        self._forward = forward
        self._waiting: asyncio.Queue[events.Event] = asyncio.Queue()
        self._num_open = 0
        self._is_text_under_way = False

    @property
    def is_idle(self) -> bool:
        """Whether every key has done its work."""
        return not self._num_open

    def take(self, event: events.Event) -> None:
        """Queue a key or a paste."""
        self._num_open += 1
        self._waiting.put_nowait(event)

    async def run(self) -> None:
        """Hand on for ever; the app cancels it at its end."""
        while True:
            event = await self._waiting.get()
            await self._hand_on(event)
            if self._is_text_under_way and self._waiting.empty():
                await self._settle()
            self._num_open -= 1

    async def _hand_on(self, event: events.Event) -> None:
        focused = self._app.focused
        if focused is not None and _is_text(event, focused):
            # text stays in order by itself, and a long burst of it must not cost a round trip each
            self._is_text_under_way = True
            await self._forward(event)
            return
        if self._is_text_under_way:
            await self._settle()
        screen = self._app.screen
        await self._forward(event)
        await self._settle_both_ways()
        while screen is not self._app.screen:
            # a dialog opened or closed: it is ready, or its answer is taken, before the next key
            screen = self._app.screen
            await self._settle_both_ways()

    async def _settle_both_ways(self) -> None:
        """A binding acts when the first fence arrives; what it posts is done at the second's."""
        await self._settle()
        await self._settle()

    async def _settle(self) -> None:
        """Wait until the focused widget, what is around it, and the app have handled all."""
        self._is_text_under_way = False
        target = self._app.focused or self._app.screen
        fence = Fence()
        if not target.post_message(fence):
            return
        while not fence.passed.is_set() and not _has_ended(target):
            try:
                await asyncio.wait_for(fence.passed.wait(), LOST_CHECK_S)
            except TimeoutError:
                continue


def _is_text(event: events.Event, focused: Widget) -> bool:
    return isinstance(event, events.Key) and focused.check_consume_key(event.key, event.character)


def _has_ended(target: Widget) -> bool:
    """Whether it handles no messages any more; one that is still being built will."""
    return not target.is_attached or (target.is_mounted and not target.is_running)
