"""Passing chat events on to whoever subscribed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from localpaged.chat.events import ChatEvent, ModelFailed, ModelLoading, ModelReady

Subscriber = Callable[[tuple[ChatEvent, ...]], None]

log = logging.getLogger(__name__)


class Publisher:
    """Calls every subscriber, on the calling thread. Any thread.

    Invariant: who subscribes late learns at once how the model stands, however early it failed.
    """

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()
        self._model_state: ChatEvent | None = None
        self._lock = threading.Lock()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the model's state, then with every batch from now on."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)
            known = self._model_state
        if known is not None:
            _call(subscriber, (known,))

    def publish(self, *events: ChatEvent) -> None:
        """Send a batch; an empty one is not sent."""
        if not events:
            return
        with self._lock:
            for event in events:
                if isinstance(event, (ModelLoading, ModelReady, ModelFailed)):
                    self._model_state = event
            subscribers = self._subscribers
        for subscriber in subscribers:
            _call(subscriber, events)


def _call(subscriber: Subscriber, events: tuple[ChatEvent, ...]) -> None:
    try:
        subscriber(events)
    except Exception:
        # These are the threads of the engine and the disk: a broken listener must not end the
        # answers of everyone else.
        log.exception("a subscriber failed")
