"""KVKeeper: one model's KV files, read and written on a thread of its own."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from localpaged.kv_files import users
from localpaged.kv_files.budget import sweep
from localpaged.kv_files.contents import Contents, guesses_behind
from localpaged.kv_files.folder import KVFolder, NoSpace
from localpaged.kv_files.identity import KVIdentity
from localpaged.kv_files.names import Digests, FileName, Index, chain
from localpaged.kv_files.reading import Arrived, Reading, read_next
from localpaged.kv_files.segment import Segment

log = logging.getLogger(__name__)

MAX_OUTSTANDING_BYTES = 32 << 20
"""So much that is copied and not written yet may wait in memory."""
MAX_LAST_BYTES = 256 << 20
"""So much at the end, when the pool's own memory is about to come free."""
READ_AHEAD = 2
LAST_FILE_S = 0.5
FIRST_BYTE_S = 1 / 500e6
"""What reading and checking a byte takes, until it was measured."""

Job = Callable[[], None]


class KVKeeper:
    """Public methods only leave a job or read what is in memory: none waits for the disk.

    Called by the engine's thread; jobs run one after another on the keeper's own. `wake`, called
    there, says that something arrived, was written, or that the alarm rang. What goes wrong with a
    file is logged, costs its KV and nothing else.
    """

    def __init__(
        self,
        folder: KVFolder,
        *,
        budget_bytes: int,
        is_deleted: Callable[[str], bool] = lambda chat_id: False,
    ) -> None:
        """`is_deleted` tells whether a chat's KV must not be kept; called on the keeper's thread.

        Lists the folder.
        """
        self.identity: KVIdentity = folder.identity
        self.budget_bytes = budget_bytes
        self.wake: Callable[[], None] = lambda: None
        self.byte_s = FIRST_BYTE_S
        self._folder = folder
        self._is_deleted = is_deleted
        self._index: Index = {}
        self._contents = Contents()
        self._listed_ns = -1
        self._arrived: deque[Arrived] = deque()
        self._outstanding_bytes = 0
        self._max_outstanding_bytes = MAX_OUTSTANDING_BYTES
        self._is_synced = True
        self._changed = threading.Condition()
        self._has_rung = False
        self._ring_at_s: float | None = None
        self._is_closing = False
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="kv-files", daemon=True)
        self._refresh()

    def start(self) -> None:
        """Start the thread, which first removes what no budget and no chat wants."""
        self._thread.start()
        self._enqueue(self._tidy)

    def find(self, ids: Sequence[int]) -> int:
        """Return how many of the first tokens the files have, or are likely to have."""
        digests = Digests(self.identity, ids)
        files = chain(self._index, digests, self.identity, num_tokens=len(ids))
        guesses = guesses_behind(files, self._index, digests, ids, self._contents, self.identity)
        num_blocks = sum(name.num_blocks for name in files)
        return (num_blocks + (guesses[0].num_blocks if guesses else 0)) * self.identity.block_size

    def has(self, name: FileName) -> bool:
        """Whether there is a file of that name, or will be soon."""
        return name in self._index.get(name.start, ())

    # reading

    def read(self, ids: tuple[int, ...], *, num_known: int) -> Reading:
        """Begin to read what the files have of `ids` behind the first `num_known` tokens."""
        reading = Reading(ids, num_known)
        self._enqueue(partial(self._begin_reading, reading))
        return reading

    @property
    def has_arrived(self) -> bool:
        """Whether `take` has something."""
        return bool(self._arrived)

    def take(self) -> Arrived | None:
        """Return the next thing that was read."""
        if not self._arrived:
            return None
        arrived = self._arrived.popleft()
        if not arrived.is_last:
            self._enqueue(partial(self._read_next, arrived.reading))
        return arrived

    # writing

    @property
    def has_room(self) -> bool:
        """Whether `write` should be called now."""
        return self._outstanding_bytes < self._max_outstanding_bytes

    def write(self, segment: Segment, name: FileName, chats: Iterable[str]) -> None:
        """Keep a segment, unless all the chats that it is of are deleted."""
        with self._changed:
            self._outstanding_bytes += segment.num_bytes
        self._enqueue(partial(self._write, segment, name, tuple(chats)))

    def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until `write` should be called, so long at most; whether it should."""
        with self._changed:
            return self._changed.wait_for(lambda: self.has_room, timeout_s)

    def hurry(self, *, is_last: bool) -> None:
        """Let more wait in memory. `is_last`: the program ends, and no file waits for the disk."""
        self._max_outstanding_bytes = MAX_LAST_BYTES
        self._is_synced = not is_last

    def note(self, paths: Mapping[str, Sequence[FileName]]) -> None:
        """Note which files each chat is about to use, so that they can be deleted with it."""
        self._enqueue(partial(self._note, dict(paths)))

    def end_round(self, paths: Mapping[str, Sequence[FileName]]) -> None:
        """Make each chat's files recent, those of the last one most; keep the budget."""
        self._enqueue(partial(self._end_round, dict(paths)))

    # time

    @property
    def has_rung(self) -> bool:
        """Whether the alarm rang that was set last."""
        return self._has_rung

    def set_alarm(self, delay_s: float | None) -> None:
        """Ring after `delay_s`, or not at all; an earlier alarm is off."""
        self._has_rung = False
        self._ring_at_s = None if delay_s is None else time.monotonic() + delay_s
        self._enqueue(lambda: None)

    def close(self, *, wait_s: float) -> None:
        """Do what is left, waiting so long at most; then end after the file that is being written.

        With 0 everything is done in its own time. A thread that still runs when the interpreter
        ends may take the program down, so the last file is waited for, unless the disk hangs.
        """
        self._jobs.put(None)
        if self._thread.is_alive() and wait_s > 0:
            self._thread.join(wait_s)
            self._is_closing = True
            self._thread.join(LAST_FILE_S)

    # the keeper's thread

    def _enqueue(self, job: Job) -> None:
        self._jobs.put(job)

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._until_alarm_s())
            except queue.Empty:
                self._refresh()
                self._ring_at_s, self._has_rung = None, True
                self.wake()
                continue
            if job is None or self._is_closing:
                return
            try:
                job()
            except OSError as error:
                log.warning("The folder of KV files cannot be used: %s", error)
            except Exception:  # the thread's border: the next file may be better
                log.exception("a KV file could not be dealt with")

    def _until_alarm_s(self) -> float | None:
        ring_at_s = self._ring_at_s
        return None if ring_at_s is None else max(0.0, ring_at_s - time.monotonic())

    def _refresh(self) -> None:
        """List the folder if it has changed, by us or by another program."""
        try:
            changed_ns = self._folder.path.stat().st_mtime_ns
            if changed_ns != self._listed_ns:
                self._index = self._folder.index()
                self._listed_ns = changed_ns
        except FileNotFoundError:
            self._index, self._listed_ns = {}, -1
        except OSError as error:
            log.warning("The KV files in %s cannot be listed: %s", self._folder.path, error)

    def _begin_reading(self, reading: Reading) -> None:
        self._refresh()
        reading.plan(self._index, self._contents, self.identity)
        for _ in range(READ_AHEAD):
            self._read_next(reading)

    def _read_next(self, reading: Reading) -> None:
        if reading.is_over:
            return
        started_s = time.perf_counter()
        arrived = read_next(self._folder, reading)
        for segment in reading.take_seen():
            self._contents.note(segment, self.identity)
        if arrived.segment is not None:
            taken_s = time.perf_counter() - started_s
            self.byte_s += (taken_s / arrived.segment.num_bytes - self.byte_s) / 4
        if arrived.is_last:
            if arrived.reason:
                log.warning("%s", arrived.reason)
                self._refresh()
            self._make_recent(reading.read_files)
        self._arrived.append(arrived)
        self.wake()

    def _make_recent(self, files: Sequence[FileName]) -> None:
        try:
            self._folder.touch(files, now_ns=time.time_ns())
        except OSError as error:  # what was read is of use all the same
            log.warning("KV files cannot be marked as used: %s", error)

    def _write(self, segment: Segment, name: FileName, chats: tuple[str, ...]) -> None:
        try:
            is_wanted = not chats or not all(self._is_deleted(chat) for chat in chats)
            if is_wanted and not self.has(name):
                self._folder.write(segment, is_synced=self._is_synced)
                self._replace_shorter(name, segment)
                self._contents.note(segment, self.identity)
        except (OSError, NoSpace) as error:
            log.warning("KV of a chat is not kept: %s", error)
        finally:
            with self._changed:
                self._outstanding_bytes -= segment.num_bytes
                self._changed.notify_all()
            self.wake()

    def _replace_shorter(self, name: FileName, segment: Segment) -> None:
        """Put a file into the index, in the place of those that hold its beginning alone."""
        digests = Digests(self.identity, segment.ids)
        first = len(segment.ids) - segment.num_blocks * self.identity.block_size
        kept = [name]
        for other in self._index.get(name.start, ()):
            end = first + other.num_blocks * self.identity.block_size
            if end < len(segment.ids) and digests.at(end) == other.end:
                self._folder.remove(other)
            else:
                kept.append(other)
        self._index = {**self._index, name.start: kept}

    def _note(self, paths: Mapping[str, Sequence[FileName]]) -> None:
        self._folder.make()
        for chat_id, files in paths.items():
            if chat_id and not self._is_deleted(chat_id):
                names = [self._folder.path / name.text for name in files]
                users.note(self._folder.root, chat_id, names)

    def _end_round(self, paths: Mapping[str, Sequence[FileName]]) -> None:
        root = self._folder.root
        if not root.exists():
            return
        for files in paths.values():
            self._folder.touch(files, now_ns=time.time_ns())
        self._tidy()

    def _tidy(self) -> None:
        root = self._folder.root
        if not root.exists():
            return
        for chat_id in users.noted_chats(root):
            if self._is_deleted(chat_id):
                users.forget(root, chat_id)
        if sweep(root, budget_bytes=self.budget_bytes):
            users.prune(root)
        self._refresh()
