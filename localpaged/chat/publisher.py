"""Passing chat events on to whoever subscribed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from localpaged.chat.events import ChatEvent, ModelFailed, ModelLoading, ModelReady

Subscriber = Callable[[tuple[ChatEvent, ...]], None]

log = logging.getLogger(__name__)


class Publisher:
    """Calls every subscriber, on the calling thread and one batch after another. Any thread.

    Invariant: who subscribes late learns at once how the model stands, however early it failed;
    and a failure is the last that is told of it.
    """

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()
        self._model_state: ChatEvent | None = None
        # Held while subscribers are called: what two threads tell must reach all in one order.
        self._lock = threading.RLock()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the model's state, then with every batch from now on."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)
            if self._model_state is not None:
                _call(subscriber, (self._model_state,))

    def publish(self, *events: ChatEvent) -> None:
        """Send a batch; an empty one is not sent."""
        with self._lock:
            told = tuple(event for event in events if self._is_news(event))
            if not told:
                return
            for subscriber in self._subscribers:
                _call(subscriber, told)

    def _is_news(self, event: ChatEvent) -> bool:
        if not isinstance(event, (ModelLoading, ModelReady, ModelFailed)):
            return True
        if isinstance(self._model_state, ModelFailed):
            # The engine was still busy with a stage when the file turned out to be no model.
            return False
        self._model_state = event
        return True


def _call(subscriber: Subscriber, events: tuple[ChatEvent, ...]) -> None:
    try:
        subscriber(events)
    except Exception:
        # These are the threads of the engine and the disk: a broken listener must not end the
        # answers of everyone else.
        log.exception("a subscriber failed")
