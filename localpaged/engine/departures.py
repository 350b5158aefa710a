"""Departures: which KV is copied out of the pool into files, piece by piece."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from localpaged.engine.kv_manager import KVManager
from localpaged.engine.prefix_tree import BlockKey, Branch
from localpaged.engine.restores import BlockStore
from localpaged.kv_files.keeper import KVKeeper
from localpaged.kv_files.names import Digests, FileName
from localpaged.kv_files.segment import Segment

MIN_BLOCKS = 8
"""A shorter prefix is computed as fast as a file is opened."""


@dataclass(frozen=True, slots=True)
class KeptPath:
    """A prefix that ends with a leaf of the tree, and the chats that went through it."""

    keys: tuple[BlockKey, ...]
    chats: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Piece:
    path: KeptPath
    start: int
    name: FileName


@dataclass(slots=True)
class _Round:
    """What is left of a round: prefixes, and the pieces of the one that has its turn.

    `room_bytes` is what the budget has for the files of those to come.
    """

    paths: deque[KeptPath]
    room_bytes: int
    pieces: deque[_Piece] = field(default_factory=deque)
    seen: set[FileName] = field(default_factory=set)
    files: dict[str, list[FileName]] = field(default_factory=dict)


@dataclass(slots=True)
class Departures:
    """A round of writing: what is pinned first, then the chats that were used last.

    Engine thread only. A piece is found in the tree anew when its turn comes: what was evicted
    meanwhile is left out. A round that was broken off begins anew.
    """

    kv: KVManager
    store: BlockStore
    keeper: KVKeeper
    min_blocks: int = MIN_BLOCKS
    _round: _Round | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a round has begun and not ended."""
        return self._round is not None

    def break_off(self) -> None:
        """End a round where it is: there is something else to do."""
        self._round = None

    def go_on(self) -> bool:
        """Copy one piece out, or find the pieces of the next prefix; whether the round is over."""
        if self._round is None:
            paths = paths_to_keep(self.kv, min_blocks=self.min_blocks)
            self._round = _Round(deque(paths), self.keeper.budget_bytes)
        now = self._round
        if now.pieces:
            self._put_away(now.pieces.popleft())
        elif now.paths:
            self._plan(now, now.paths.popleft())
        else:
            self._round = None
            # The files of the chat that comes last are the most recent ones.
            self.keeper.end_round(dict(reversed(now.files.items())))
            return True
        return False

    def _plan(self, now: _Round, path: KeptPath) -> None:
        """Find the pieces of a prefix that no file has, unless it is too much."""
        whole = list(self._pieces_of(path))
        pieces = [piece for piece in whole if piece.name not in now.seen]
        now.room_bytes -= sum(self._file_bytes(piece) for piece in pieces)
        if now.room_bytes < 0:
            now.paths.clear()
            return
        now.seen.update(piece.name for piece in pieces)
        now.pieces.extend(piece for piece in pieces if not self.keeper.has(piece.name))
        names = [piece.name for piece in whole]
        self.keeper.note(dict.fromkeys(path.chats, names))
        for chat in path.chats or ("",):
            now.files.setdefault(chat, []).extend(names)

    def _pieces_of(self, path: KeptPath) -> Iterator[_Piece]:
        identity = self.keeper.identity
        digests = Digests(identity, _ids(path.keys))
        for start in range(0, len(path.keys), identity.segment_blocks):
            count = min(identity.segment_blocks, len(path.keys) - start)
            first, end = start * identity.block_size, (start + count) * identity.block_size
            yield _Piece(path, start, FileName(digests.at(first), digests.at(end), count))

    def _file_bytes(self, piece: _Piece) -> int:
        end = (piece.start + piece.name.num_blocks) * self.kv.block_size
        return self.keeper.identity.file_bytes(piece.name.num_blocks, num_tokens=end)

    def _put_away(self, piece: _Piece) -> None:
        end = piece.start + piece.name.num_blocks
        keys = piece.path.keys[:end]
        blocks = self.kv.tree.find(keys)
        if len(blocks) < end:
            return  # it was evicted meanwhile
        parts = self.store.read_blocks(blocks[piece.start :])
        segment = Segment(_ids(keys), piece.name.num_blocks, parts)
        self.keeper.write(segment, piece.name, piece.path.chats)


def paths_to_keep(kv: KVManager, *, min_blocks: int) -> list[KeptPath]:
    """Return every whole prefix that is worth a file: pinned ones first, then the latest used."""
    branches: dict[int, Branch] = {}
    parents: set[int | None] = set()
    for branch in kv.tree.branches():
        branches[branch.id] = branch
        parents.add(branch.parent_id)
    pinned = [pin.keys[: len(pin.blocks)] for pin in kv.pins.all() if pin.blocks]
    ranked = []
    for leaf in branches.values():
        if leaf.id in parents or leaf.start + len(leaf.blocks) < min_blocks:
            continue
        keys = _whole(leaf, branches)
        is_pinned = any(keys[: len(pin)] == pin for pin in pinned)
        ranked.append((is_pinned, leaf.last_used, KeptPath(keys, frozenset(leaf.users))))
    ranked.sort(key=lambda entry: entry[:2], reverse=True)
    return [path for _, _, path in ranked]


def _whole(leaf: Branch, branches: dict[int, Branch]) -> tuple[BlockKey, ...]:
    parts = [leaf.keys]
    above = leaf.parent_id
    while above is not None:
        parts.append(branches[above].keys)
        above = branches[above].parent_id
    return tuple(key for keys in reversed(parts) for key in keys)


def _ids(keys: tuple[BlockKey, ...]) -> tuple[int, ...]:
    return tuple(token for key in keys for token in key)
