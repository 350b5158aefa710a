"""Restores: KV from files comes back into the pool, a segment at a time, between two steps."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from localpaged.engine.arrival import Arrival
from localpaged.engine.kv_manager import KVManager
from localpaged.engine.prefix_tree import BlockKey
from localpaged.kv_files.contents import num_common
from localpaged.kv_files.keeper import KVKeeper
from localpaged.kv_files.reading import Arrived, Reading

log = logging.getLogger(__name__)

FIRST_TOKEN_S = 5e-4
"""What computing a token takes, until it was measured."""
MAX_TOLD = 32
NO_ROOM = "There was no room in KV memory for all that was in KV files."
FAILED = "KV from a file could not be taken in; the log has the details."
TOO_SLOW = "Reading KV files took longer than computing it again."


class BlockStore(Protocol):
    """The contents of blocks as bytes; `KVStorage`, or a fake."""

    def read_blocks(self, blocks: Sequence[int]) -> tuple[memoryview, ...]:
        """Return copies of blocks, a run of bytes for each part."""

    def write_blocks(
        self, blocks: Sequence[int], parts: Sequence[memoryview], *, first: int, pool_blocks: int
    ) -> None:
        """Fill blocks from what `read_blocks` returned, from its block `first` on."""


@dataclass(slots=True, eq=False)
class Restore:
    """A prefix on its way back. `may_evict`: somebody waits for it, so it may take what is cached.

    `num_before` tokens were in memory when it began; `num_tokens` are now. `note` is a sentence
    that tells why there is not more.
    """

    ids: tuple[int, ...]
    reading: Reading
    arrival: Arrival
    num_before: int
    num_tokens: int
    may_evict: bool = False
    note: str = ""
    is_over: bool = False


@dataclass(slots=True)
class Restores:
    """What comes back from files. Engine thread only.

    Invariant: each open restore has an arrival of the manager, and none is in it that has not.
    """

    kv: KVManager
    store: BlockStore
    keeper: KVKeeper
    _open: dict[Reading, Restore] = field(default_factory=dict)
    _ended: deque[Restore] = field(default_factory=lambda: deque(maxlen=MAX_TOLD))

    @property
    def is_open(self) -> bool:
        """Whether anything is on its way."""
        return bool(self._open)

    def is_worth(self, ids: tuple[int, ...], *, token_s: float | None) -> bool:
        """Whether files have more of `ids` than memory, and reading it takes less than computing.

        `token_s` is what computing a token takes, as far as it was measured.
        """
        size = self.kv.block_size
        keys = self._keys(ids)
        num_more = self.keeper.find(ids[: len(keys) * size]) - len(self.kv.tree.find(keys)) * size
        if num_more <= 0:
            return False
        compute_s = num_more * (FIRST_TOKEN_S if token_s is None else token_s)
        read_s = num_more // size * self.keeper.identity.block_bytes * self.keeper.byte_s
        return read_s < compute_s

    def begin(self, ids: tuple[int, ...], *, user: str, may_evict: bool) -> Restore:
        """Begin to bring back what the files have of `ids`, or join who does so already."""
        size = self.kv.block_size
        keys = self._keys(ids)
        num_found = self.keeper.find(ids[: len(keys) * size]) // size
        for restore in self._open.values():
            if restore.arrival.keys[:num_found] == keys[:num_found]:
                restore.may_evict |= may_evict
                return restore
        arrival = self.kv.begin_arrival(keys, user=user)
        num_before = len(arrival.blocks) * size
        reading = self.keeper.read(ids[: len(keys) * size], num_known=num_before)
        restore = Restore(ids, reading, arrival, num_before, num_before, may_evict)
        self._open[reading] = restore
        return restore

    def take(self, *, reserved_blocks: int) -> None:
        """Take one thing in that was read; `reserved_blocks` must stay available to others."""
        arrived = self.keeper.take()
        restore = None if arrived is None else self._open.get(arrived.reading)
        if arrived is None or restore is None:
            return  # nobody wants it any more
        if arrived.is_last:
            restore.note = arrived.reason
            self._end(restore)
            return
        try:
            is_all_in = self._let_in(restore, arrived, reserved_blocks)
        except Exception:  # nothing has happened to the pool, and the chats can do without it
            log.exception("KV from a file could not be taken in")
            self.give_up(restore, FAILED)
        else:
            if not is_all_in:
                self.give_up(restore, NO_ROOM)

    def give_up(self, restore: Restore, note: str) -> None:
        """End a restore early; what has come stays."""
        if not restore.is_over:
            restore.note = note
            self._end(restore)

    def end_all(self) -> None:
        """End every restore."""
        for restore in list(self._open.values()):
            self.give_up(restore, "")

    def told_of(self, ids: tuple[int, ...], chat_id: str) -> tuple[int, str]:
        """Return how many tokens of a chat's prompt came from files, and why not more; once."""
        keys = self._keys(ids)
        num_told, note = 0, ""
        for restore in [r for r in self._ended if r.arrival.user == chat_id]:
            self._ended.remove(restore)
            num_here = num_common(restore.arrival.keys, keys) * self.kv.block_size
            num_told = max(num_told, min(restore.num_tokens, num_here) - restore.num_before)
            note = restore.note or note
        return num_told, note

    def check(self) -> None:
        """Recompute the invariant."""
        arrivals = {id(restore.arrival) for restore in self._open.values()}
        assert arrivals == {id(arrival) for arrival in self.kv.arrivals}

    def _let_in(self, restore: Restore, arrived: Arrived, reserved_blocks: int) -> bool:
        """Take the blocks of a segment that are missing; whether there was room for all."""
        segment, size = arrived.segment, self.kv.block_size
        assert segment is not None
        start = len(segment.ids) // size - segment.num_blocks
        first = len(restore.arrival.blocks) - start
        assert first >= 0, "a file in between was not read"
        wanted = max(0, arrived.num_usable - first)
        count = min(wanted, self._room(reserved_blocks, may_evict=restore.may_evict))
        if count > 0:
            self.kv.arrive(
                restore.arrival,
                count,
                lambda blocks: self.store.write_blocks(
                    blocks, segment.parts, first=first, pool_blocks=self.kv.pool.num_blocks
                ),
            )
            restore.num_tokens = len(restore.arrival.blocks) * size
        return count == wanted

    def _room(self, reserved_blocks: int, *, may_evict: bool) -> int:
        cached = 0 if may_evict else self.kv.pool.num_cached
        return self.kv.num_available - cached - reserved_blocks

    def _end(self, restore: Restore) -> None:
        restore.is_over = True
        restore.reading.cancel()
        del self._open[restore.reading]
        self.kv.end_arrival(restore.arrival)
        if restore.note or restore.num_tokens > restore.num_before:
            self._ended.append(restore)

    def _keys(self, ids: tuple[int, ...]) -> tuple[BlockKey, ...]:
        """Return the keys of all blocks that a prompt may find: one token is always computed."""
        size = self.kv.block_size
        return tuple(ids[i : i + size] for i in range(0, (len(ids) - 1) // size * size, size))
