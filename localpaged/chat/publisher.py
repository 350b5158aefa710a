"""Passing chat events on to whoever subscribed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from localpaged.chat.events import (
    ChatEvent,
    ModelFailed,
    ModelLoading,
    ModelReady,
    ModelUnloaded,
)

Subscriber = Callable[[tuple[ChatEvent, ...]], None]

log = logging.getLogger(__name__)


class Publisher:
    """Calls every subscriber, on the calling thread and one batch after another. Any thread.

    Invariant: who subscribes late learns at once how each model stands, however early it failed;
    and a failure of the default one is the last that is told of any.
    """

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()
        self._model_states: dict[str, ChatEvent] = {}
        # Held while subscribers are called: what two threads tell must reach all in one order.
        self._lock = threading.RLock()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the models' states, then with every batch from now on."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)
            if self._model_states:
                _call(subscriber, tuple(self._model_states.values()))

    def publish(self, *events: ChatEvent) -> None:
        """Send a batch; an empty one is not sent."""
        with self._lock:
            told = tuple(event for event in events if self._is_news(event))
            if not told:
                return
            for subscriber in self._subscribers:
                _call(subscriber, told)

    def _is_news(self, event: ChatEvent) -> bool:
        if not isinstance(event, (ModelLoading, ModelReady, ModelFailed, ModelUnloaded)):
            return True
        if isinstance(self._model_states.get(""), ModelFailed):
            # The engine was still busy with a stage when the file turned out to be no model.
            return False
        if event.model_name and isinstance(event, (ModelFailed, ModelUnloaded)):
            self._model_states.pop(event.model_name, None)
        else:
            self._model_states[event.model_name] = event
        return True


def _call(subscriber: Subscriber, events: tuple[ChatEvent, ...]) -> None:
    try:
        subscriber(events)
    except Exception:
        # These are the threads of the engine and the disk: a broken listener must not end the
        # answers of everyone else.
        log.exception("a subscriber failed")
