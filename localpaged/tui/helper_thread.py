"""A thread for what the desktop's own programs do: they may fail, and they may never end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

PATIENCE_S = 5.0
"""How long an answer is waited for."""

_log = logging.getLogger(__name__)
Work = Callable[[], bool]


class HelperThread:
    """Runs one work after another, on a thread that ends when there is none. Any thread.

    Invariant: at most one thread, and at most one work waits: a later one takes its place, so that
    a program that hangs gathers no crowd, and what was asked for last is done last.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._waiting: tuple[Work, Future[bool]] | None = None
        self._is_busy = False

    def put(self, work: Work) -> Future[bool]:
        """Have `work` done; the result is whether it succeeded. One that waited is cancelled."""
        done: Future[bool] = Future()
        with self._lock:
            replaced, self._waiting = self._waiting, (work, done)
            is_started, self._is_busy = self._is_busy, True
        if replaced is not None:
            replaced[1].cancel()
        if not is_started:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return done

    async def ask(self, work: Work) -> bool:
        """Return whether `work` succeeded; False when it did not within PATIENCE_S."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.put(work)), PATIENCE_S)
        except TimeoutError:
            _log.warning("no answer from the desktop (%s) in %g s", self._name, PATIENCE_S)
            return False

    def _run(self) -> None:
        while (job := self._next()) is not None:
            work, done = job
            if done.set_running_or_notify_cancel():
                done.set_result(self._has_succeeded(work))

    def _next(self) -> tuple[Work, Future[bool]] | None:
        with self._lock:
            job, self._waiting = self._waiting, None
            self._is_busy = job is not None
        return job

    def _has_succeeded(self, work: Work) -> bool:
        try:
            return work()
        except Exception as error:  # whatever a program of the desktop or its library does
            _log.warning("the desktop (%s) failed: %s: %s", self._name, type(error).__name__, error)
            return False
