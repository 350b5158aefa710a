"""HostTier: which prefixes have their KV in host memory, where evicted blocks go.

Beside the prefix tree and independent of it: a block is kept under the exact tokens of its whole
prefix, wherever the beginning of that prefix lies. What comes back to the pool stays here, too,
until its slot is needed, so that giving it up once more costs no copy.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Container, Iterable, Sequence

from localpaged.engine.prefix_tree import BlockKey
from localpaged.engine.step_plan import BlockMove


class _Entry:
    """A block's tokens below those of its parent; `slot` None only leads further down."""

    __slots__ = ("children", "is_ready", "key", "num_locks", "parent", "slot")

    def __init__(self, parent: _Entry | None, key: BlockKey) -> None:
        self.parent = parent
        self.key = key
        self.children: dict[BlockKey, _Entry] = {}
        self.slot: int | None = None
        self.is_ready = False
        self.num_locks = 0


class HostTier:
    """Slots of host memory, least recently used given up first. Engine thread only.

    Invariants: a slot is free or has one entry; an entry without children has a slot; a slot is
    ready when the step that fills it is done, and only then read; a locked slot, which a step will
    read, is not given up.
    """

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._free = list(range(num_slots - 1, -1, -1))
        self._root = _Entry(None, ())
        # Oldest first. Whoever touches an entry touches those above it later, so leaves are older.
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._pending: dict[int, int] = {}

    @property
    def num_used(self) -> int:
        """Slots with a block in them or on its way."""
        return len(self._entries)

    @property
    def has_moves(self) -> bool:
        """Whether the next step has to copy blocks to host memory before it writes any."""
        return bool(self._pending)

    def match(self, keys: Sequence[BlockKey], start: int) -> list[int]:
        """Return the slots that continue the first `start` blocks of `keys`; they become recent."""
        if not self._entries:
            return []
        path = self._walk(keys)
        slots: list[int] = []
        for entry in path[start:]:
            if entry.slot is None or not entry.is_ready:
                break
            slots.append(entry.slot)
        self._touch(path[: start + len(slots)])
        return slots

    def store(self, keys: Sequence[BlockKey], blocks: Sequence[int]) -> None:
        """Keep the KV of the last blocks of the prefix `keys`, which is in `blocks` until the step.

        As many as there are slots for; nothing is copied that is here already.
        """
        if not self.num_slots:
            return
        path = self._walk(keys)
        for key in keys[len(path) :]:
            entry = _Entry(path[-1] if path else self._root, key)
            assert entry.parent is not None
            entry.parent.children[key] = entry
            path.append(entry)
        # Making room must not take this very prefix away, nor what leads to it.
        path[-1].num_locks += 1
        for entry, block in zip(path[len(path) - len(blocks) :], blocks, strict=True):
            if entry.slot is None:
                slot = self._take_slot()
                if slot is None:
                    break
                entry.slot, entry.is_ready = slot, False
                self._entries[slot] = entry
                self._pending[slot] = block
        path[-1].num_locks -= 1
        self._prune(path[-1])
        self._touch(path)

    def discard(self, keys: Sequence[BlockKey]) -> None:
        """Forget what is here of the prefix `keys`, from its end on, as far as it ends there."""
        for entry in reversed(self._walk(keys)):
            if entry.children or entry.num_locks:
                break
            if entry.slot is not None:
                self._drop(entry.slot)

    def lock(self, slots: Iterable[int]) -> None:
        """Keep slots, because a step will read them."""
        for slot in slots:
            self._entries[slot].num_locks += 1

    def unlock(self, slots: Iterable[int]) -> None:
        """Take a lock away from each slot."""
        for slot in slots:
            assert self._entries[slot].num_locks > 0
            self._entries[slot].num_locks -= 1

    def take_moves(self) -> tuple[BlockMove, ...]:
        """Return the copies to host memory that the next step has to make, before all else."""
        moves = tuple(BlockMove(block, slot) for slot, block in self._pending.items())
        self._pending.clear()
        return moves

    def drop_moves(self, blocks: Container[int]) -> None:
        """Forget what is still in blocks that will be written before the next step reads them."""
        for slot, block in list(self._pending.items()):
            if block in blocks:
                self._drop(slot)

    def confirm(self, moves: Iterable[BlockMove], *, has_moved: bool) -> None:
        """Take over what became of moves; slots of which it is not known are forgotten."""
        for move in moves:
            if has_moved:
                self._entries[move.slot].is_ready = True
            else:
                self._drop(move.slot)

    def check(self, locks: Counter[int]) -> None:
        """Recompute the books; `locks` are the slots that steps will read."""
        found: dict[int, _Entry] = {}
        stack = [self._root]
        while stack:
            entry = stack.pop()
            for key, child in entry.children.items():
                assert child.parent is entry and child.key == key
                assert child.children or child.slot is not None, "an entry leads nowhere"
                stack.append(child)
            if entry.slot is not None:
                assert entry.slot not in found, "two entries have one slot"
                found[entry.slot] = entry
                assert entry.num_locks == locks[entry.slot], "locks drifted"
                assert entry.is_ready or not entry.num_locks, "what is not there will be read"
        assert found == self._entries
        assert sorted([*self._free, *found]) == list(range(self.num_slots))
        assert all(not found[slot].is_ready for slot in self._pending)

    def _walk(self, keys: Sequence[BlockKey]) -> list[_Entry]:
        path: list[_Entry] = []
        entry = self._root
        for key in keys:
            child = entry.children.get(key)
            if child is None:
                break
            path.append(child)
            entry = child
        return path

    def _touch(self, path: Sequence[_Entry]) -> None:
        for entry in reversed(path):
            if entry.slot is not None:
                self._entries.move_to_end(entry.slot)

    def _take_slot(self) -> int | None:
        if not self._free:
            for slot, entry in self._entries.items():
                if not entry.children and not entry.num_locks:
                    self._drop(slot)
                    break
        return self._free.pop() if self._free else None

    def _drop(self, slot: int) -> None:
        entry = self._entries.pop(slot)
        assert not entry.num_locks
        self._pending.pop(slot, None)
        self._free.append(slot)
        entry.slot = None
        self._prune(entry)

    def _prune(self, entry: _Entry) -> None:
        """Remove an entry that leads nowhere, and those above it that led there only."""
        while entry.parent is not None:
            if entry.slot is not None or entry.children or entry.num_locks:
                break
            del entry.parent.children[entry.key]
            entry = entry.parent
