"""Passing chat events on to whoever subscribed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from localpaged.chat.events import ChatEvent

Subscriber = Callable[[tuple[ChatEvent, ...]], None]

log = logging.getLogger(__name__)


class Publisher:
    """Calls every subscriber, on the calling thread. Any thread."""

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every batch from now on."""
        self._subscribers = (*self._subscribers, subscriber)

    def publish(self, *events: ChatEvent) -> None:
        """Send a batch; an empty one is not sent."""
        if not events:
            return
        for subscriber in self._subscribers:
            try:
                subscriber(events)
            except Exception:
                # These are the threads of the engine and the disk: a broken listener must not end
                # the answers of everyone else.
                log.exception("a subscriber failed")
