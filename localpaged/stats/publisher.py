"""StatsThread: keeps histories and run summaries, and answers readers on a Unix socket.

Once a second it reads the engine's latest picture, which is there anyway. The engine itself is
asked only when a reader wants to know what lies in its blocks.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from localpaged.engine.inspection import Inspection
from localpaged.stats import sockets
from localpaged.stats.collector import Collector
from localpaged.stats.connections import Connections, Reader
from localpaged.stats.protocol import greeting, line_of
from localpaged.stats.schema import HISTORY_INTERVAL_S, to_json
from localpaged.stats.source import Source

INSPECTION_LIMIT_S = 2.0
"""An engine that is busy for longer is told of without what lies in its blocks."""
INSPECTION_KEPT_S = 0.25
"""Readers that ask so soon after another one get what was seen for that one."""

log = logging.getLogger(__name__)

OnSample = Callable[[Collector], None]


@dataclass(slots=True)
class _Look:
    """An inspection of every loaded model, and who waits for it."""

    futures: dict[str, Future[Inspection]]
    begun_s: float
    waiting: list[tuple[Reader, frozenset[str]]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return all(future.done() for future in self.futures.values())

    def seen(self) -> dict[str, Inspection]:
        """What was seen so far; a model that went away meanwhile is left out."""
        return {
            name: future.result()
            for name, future in self.futures.items()
            if future.done() and not future.cancelled() and future.exception() is None
        }


class StatsThread:
    """One thread, named `stats`. `start` and `close` may be called from any other.

    A socket that cannot be had is logged: the program goes on, and cannot be looked at until there
    is one. Each second it is made anew if its name is gone, as when its folder was tidied up.
    `on_sample` is called on the thread, each second and, with `close`, a last time.
    """

    def __init__(
        self,
        source: Source,
        collector: Collector,
        *,
        on_sample: OnSample = lambda collector: None,
        interval_s: float = HISTORY_INTERVAL_S,
    ) -> None:
        self.path: Path | None = None
        self._source = source
        self._collector = collector
        self._on_sample = on_sample
        self._interval_s = interval_s
        self._is_closing = False
        self._has_failed = False
        self._is_unheard = False
        self._named: tuple[int, int] | None = None
        self._look: _Look | None = None
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_out.setblocking(False)
        self._connections: Connections | None = None
        self._thread = threading.Thread(target=self._run, name="stats", daemon=True)

    def start(self) -> None:
        """Listen, and begin to sample."""
        hello = line_of(greeting(self._collector.program))
        self._connections = Connections(self._listener(), hello, on_request=self._request)
        self._connections.also_watch(self._wake_in)
        self._thread.start()

    def close(self) -> None:
        """Sample a last time, stop listening and end the thread. A second call does nothing."""
        if self._is_closing:
            return
        self._is_closing = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        if self.path is not None and sockets.identity(self.path) == self._named:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _wake(self) -> None:
        with suppress(OSError):  # a full pipe wakes as well
            self._wake_out.send(b"\0")

    def _listener(self) -> socket.socket | None:
        """Return a socket that listens at a name of its own, None if there can be none."""
        try:
            listener, self.path = sockets.listen(self._collector.program.pid)
        except OSError as error:
            if not self._is_unheard:
                log.warning("stats cannot be looked at from other terminals: %s", error)
            self._is_unheard = True
            return None
        self._is_unheard = False
        self._named = sockets.identity(self.path)
        return listener

    def _keep_listening(self, connections: Connections) -> None:
        if self.path is not None and sockets.identity(self.path) == self._named:
            return
        listener = self._listener()
        if listener is not None:
            connections.listen(listener)

    def _run(self) -> None:
        connections = self._connections
        assert connections is not None
        next_s = time.monotonic()
        while not self._is_closing:
            now_s = time.monotonic()
            if now_s >= next_s:
                self._sample()
                self._keep_listening(connections)
                # after a suspended machine one point, not one for every second that is gone
                next_s = max(next_s + self._interval_s, now_s)
            due_s = next_s if self._look is None else min(next_s, self._look_ends_s())
            connections.serve(timeout_s=max(0.0, due_s - time.monotonic()))
            self._answer_if_seen()
        self._sample()
        connections.close()
        self._wake_in.close()
        self._wake_out.close()

    def _sample(self) -> None:
        try:
            self._collector.sample()
            self._on_sample(self._collector)
        except Exception:  # stats are no reason for anything to end
            if not self._has_failed:
                log.exception("stats could not be sampled")
            self._has_failed = True

    def _request(self, reader: Reader, details: frozenset[str]) -> None:
        if not details:
            self._answer(reader, details, {})
            return
        look = self._look
        is_old = look is not None and time.monotonic() > look.begun_s + INSPECTION_KEPT_S
        if look is None or (is_old and look.is_done):
            look = self._look = self._begin_look()
        look.waiting.append((reader, details))

    def _begin_look(self) -> _Look:
        futures = {name: self._source.inspect(name) for name in self._source.models()}
        for future in futures.values():
            future.add_done_callback(lambda _: self._wake())
        return _Look(futures, time.monotonic())

    def _look_ends_s(self) -> float:
        assert self._look is not None
        return self._look.begun_s + INSPECTION_LIMIT_S

    def _answer_if_seen(self) -> None:
        look = self._look
        if look is None:
            return
        if look.is_done or time.monotonic() >= self._look_ends_s():
            self._answer_all(look)
        if time.monotonic() > look.begun_s + INSPECTION_KEPT_S and not look.waiting:
            self._look = None

    def _answer_all(self, look: _Look) -> None:
        seen = look.seen()
        waiting, look.waiting = look.waiting, []
        for reader, details in waiting:
            self._answer(reader, details, seen)

    def _answer(self, reader: Reader, details: frozenset[str], seen: dict[str, Inspection]) -> None:
        assert self._connections is not None
        try:
            line = line_of(to_json(self._collector.snapshot(details, seen)))
        except Exception:  # the next one may ask for something that can be told
            log.exception("stats could not be told")
            self._connections.drop(reader)
        else:
            self._connections.answer(reader, line)
