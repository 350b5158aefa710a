"""The one thread that writes.

Callers never wait: they leave an operation and get a Future that is done when it is on the disk.
Operations are applied in the order they came. When the disk refuses (full, locked, damaged) the
queue stands still, one warning is sent, and the first operation is tried again every second;
nothing is dropped. Text of running answers does not queue: it is collected per turn, and the whole
text of those that grew is saved twice a second.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database

from localpaged import paths
from localpaged.errors import StoreError
from localpaged.store.checkpoints import Checkpoints
from localpaged.store.database import transaction
from localpaged.store.failures import is_worth_retrying, store_error
from localpaged.store.writes import Operation, SaveCheckpoints, Write

CHECKPOINT_INTERVAL_S = 0.5  # at most one second of text may be lost: half of it is for the saving
RETRY_INTERVAL_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _CheckpointNow:
    """When its turn comes, what is before it in the queue is saved, and all texts are."""

    def apply(self, db: Database, *, run_id: str) -> None:
        """Nothing of its own."""


class _DiskRefuses(Exception):
    """The same write may succeed later."""


@dataclass(frozen=True, slots=True)
class _Entry:
    operation: Operation
    saved: Future[None]


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The queue at one moment; `generation` counts the operations that left it."""

    generation: int
    operations: tuple[Operation, ...]


class StoreWriter:
    """Owns the writing connection from construction to `close`. Methods may be called anywhere.

    Invariant: an operation leaves the queue only when it is on the disk, or can never be (our bug).
    """

    def __init__(
        self,
        db: Database,
        path: Path,
        *,
        run_id: str,
        checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S,
        retry_interval_s: float = RETRY_INTERVAL_S,
    ) -> None:
        self.on_failing: Callable[[StoreError], None] = _ignore
        self.on_recovered: Callable[[], None] = _ignore
        self._db = db
        self._path = path
        self._run_id = run_id
        self._checkpoint_interval_s = checkpoint_interval_s
        self._retry_interval_s = retry_interval_s
        self._changed = threading.Condition()
        self._queue: deque[_Entry] = deque()
        self._soon: dict[str, Operation] = {}
        self._generation = 0
        self._checkpoints = Checkpoints()
        self._tick_at: float | None = None
        self._retry_at: float | None = None
        self._failure: StoreError | None = None
        self._is_closing = False
        self._is_complete = False
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation) -> Future[None]:
        """Queue an operation; the Future is done when it is durable, and never done while it fails.

        It fails with StoreError when the operation can never succeed.
        """
        with self._changed:
            entry = _entry(operation)
            if self._is_closing:
                entry.saved.set_exception(StoreError("The history is closed."))
                return entry.saved
            self._queue_soon()
            self._queue.append(entry)
            if isinstance(operation, Write):
                self._checkpoints.follow(operation)
            self._changed.notify_all()
            return entry.saved

    def submit_soon(self, key: str, operation: Operation) -> None:
        """Queue an operation within half a second; a newer one of the same key replaces it."""
        with self._changed:
            self._soon.pop(key, None)
            self._soon[key] = operation
            self._arm_tick()

    def append_text(
        self, turn_id: str, text: str, token_count: int, token_ids: Sequence[int] = ()
    ) -> None:
        """Add to what is saved of an open answer. Cheap: the engine's thread calls it per token."""
        self._checkpoints.append(turn_id, text, token_count, token_ids)
        if self._tick_at is None:
            with self._changed:
                self._arm_tick()

    def unsaved(self) -> Unsaved:
        """Return what is not on the disk yet, oldest first; checkpoints left out."""
        with self._changed:
            queued = (entry.operation for entry in self._queue)
            return Unsaved(self._generation, (*queued, *self._soon.values()))

    @property
    def generation(self) -> int:
        """How many operations have left the queue."""
        return self._generation

    @property
    def failure(self) -> StoreError | None:
        """Why nothing is saved at the moment; None when all is well."""
        return self._failure

    def flush(self, *, timeout_s: float = 10.0) -> bool:
        """Save everything now, checkpoints too; return whether it was done in time."""
        saved = self.submit(_CheckpointNow())
        try:
            saved.result(timeout_s)
        except TimeoutError:
            return False
        return True

    def close(self) -> StoreError | None:
        """Try once to save what is left, end the thread; return why something stayed unsaved."""
        with self._changed:
            self._is_closing = True
            self._queue_soon()
            self._queue.append(_entry(_CheckpointNow()))
            self._changed.notify_all()
        self._thread.join()
        return None if self._is_complete else self._failure

    # the writing thread

    def _run(self) -> None:
        while self._wait():
            self._work()
        self._work()
        while self._queue and self._retry_at is None:
            self._work()
        self._give_up()
        self._db.close()

    def _wait(self) -> bool:
        """Sleep until something is due; False when closing."""
        with self._changed:
            while not self._is_closing:
                due_at = self._due_at()
                if due_at is not None and due_at <= time.monotonic():
                    return True
                self._changed.wait(None if due_at is None else due_at - time.monotonic())
            return False

    def _due_at(self) -> float | None:
        due_at = 0.0 if self._queue else self._tick_at
        if due_at is None or self._retry_at is None:
            return due_at
        return max(due_at, self._retry_at)

    def _work(self) -> None:
        """Save checkpoints if they are due, then the first operation."""
        with self._changed:
            is_tick = self._tick_at is not None and self._tick_at <= time.monotonic()
            if is_tick:
                self._tick_at = None
                self._queue_soon()
            entry = self._queue[0] if self._queue else None
        self._checkpoints.collect()
        if is_tick and not self._save_checkpoints():
            return
        if entry is not None:
            self._save(entry)

    def _save_checkpoints(self) -> bool:
        self._checkpoints.collect()
        grown = self._checkpoints.grown()
        try:
            if grown:
                self._apply(SaveCheckpoints(grown, time.time()))
            self._checkpoints.saved(grown)
        except _DiskRefuses:
            return False
        except Exception as error:
            self._refuse_for_good(error)
            self._checkpoints.saved(grown)
        finally:
            # The disk refused, or a turn that grew is still in the queue itself.
            if self._checkpoints.has_unsaved:
                with self._changed:
                    self._arm_tick()
        return True

    def _save(self, entry: _Entry) -> None:
        operation = entry.operation
        if isinstance(operation, _CheckpointNow) and not self._save_checkpoints():
            return
        try:
            self._apply(operation)
        except _DiskRefuses:
            return
        except Exception as error:
            failure = self._refuse_for_good(error)
            self._leave_queue()
            entry.saved.set_exception(failure)
            return
        if isinstance(operation, Write):
            self._checkpoints.turns_saved(operation)
        self._leave_queue()
        entry.saved.set_result(None)

    def _apply(self, operation: Operation) -> None:
        try:
            with transaction(self._db):
                operation.apply(self._db, run_id=self._run_id)
        except sqlite3.Error as error:
            if not is_worth_retrying(error):
                raise
            self._retry_at = time.monotonic() + self._retry_interval_s
            self._fail(store_error(error, self._path))
            raise _DiskRefuses from error
        self._retry_at = None
        if self._failure is not None:
            self._failure = None
            self.on_recovered()

    def _refuse_for_good(self, error: Exception) -> StoreError:
        # Not the disk but the row is wrong. One bad write must not stop all later ones.
        log.error("a write was refused for good", exc_info=error)
        failure = StoreError(f"Something could not be saved: {error}.", hint=paths.log_hint())
        self._retry_at = None
        self._fail(failure)
        return failure

    def _fail(self, failure: StoreError) -> None:
        is_news = self._failure is None
        self._failure = failure
        if is_news:
            self.on_failing(failure)

    def _leave_queue(self) -> None:
        with self._changed:
            self._queue.popleft()
            self._generation += 1

    def _give_up(self) -> None:
        with self._changed:
            unsaved, self._queue = self._queue, deque()
        self._is_complete = not unsaved
        for entry in unsaved:
            entry.saved.set_exception(self._failure or StoreError("The history is closed."))

    # with the lock held

    def _queue_soon(self) -> None:
        # In front of whatever is queued next, so that operations keep their order.
        self._queue.extend(_entry(operation) for operation in self._soon.values())
        self._soon.clear()

    def _arm_tick(self) -> None:
        if self._tick_at is None:
            self._tick_at = time.monotonic() + self._checkpoint_interval_s
            self._changed.notify_all()


def _entry(operation: Operation) -> _Entry:
    saved: Future[None] = Future()
    # From now on nobody can cancel it: what is queued will be saved.
    saved.set_running_or_notify_cancel()
    return _Entry(operation, saved)


def _ignore(*_: object) -> None:
    """Nobody listens."""
