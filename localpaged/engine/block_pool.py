"""BlockPool: who uses each KV block. Ids and counts only; no tokens, no tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

READ_PAD_BLOCK = 0
"""Padding of block tables points here: always zero, never written."""
WRITE_PAD_BLOCK = 1
"""Padding of slot lists points here: written at will, never read."""
NUM_RESERVED_BLOCKS = 2


class BlockPool:
    """Reference counts and the free list of one model's KV blocks. Engine thread only.

    Invariant: every block is free, held (count of at least one) or cached (count zero, kept by
    the prefix tree), and free + held + cached = all. The two reserved blocks are none of these.
    The pool only grows.
    """

    def __init__(self, num_blocks: int) -> None:
        assert num_blocks > 0
        self.num_blocks = num_blocks
        self._refs = [0] * (num_blocks + NUM_RESERVED_BLOCKS)
        self._in_tree = bytearray(num_blocks + NUM_RESERVED_BLOCKS)
        # A stack that hands out ascending ids first: neighbours in a table lie side by side.
        self._free = list(range(num_blocks + NUM_RESERVED_BLOCKS - 1, NUM_RESERVED_BLOCKS - 1, -1))
        self._num_cached = 0

    @property
    def num_free(self) -> int:
        """Blocks that hold nothing of use."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks that only the prefix tree keeps; each can be evicted."""
        return self._num_cached

    @property
    def num_held(self) -> int:
        """Blocks that a block table or a pending copy uses."""
        return self.num_blocks - self.num_free - self.num_cached

    def grow(self, count: int) -> None:
        """Add `count` free blocks; they are handed out after those that are free already."""
        assert count > 0
        first = self.num_blocks + NUM_RESERVED_BLOCKS
        self.num_blocks += count
        self._refs += [0] * count
        self._in_tree += bytes(count)
        self._free[:0] = range(first + count - 1, first - 1, -1)

    def refs(self, block: int) -> int:
        """Return how many users `block` has."""
        return self._refs[block]

    def is_in_tree(self, block: int) -> bool:
        """Whether the prefix tree keeps `block`."""
        return bool(self._in_tree[block])

    def counts(self) -> list[int]:
        """Return how many users each block has, by its number; a copy."""
        return self._refs[:]

    def tree_flags(self) -> bytes:
        """Return 1 for each block that the prefix tree keeps, by its number; a copy."""
        return bytes(self._in_tree)

    def acquire(self) -> int | None:
        """Take a free block with one user, or None when there is none."""
        if not self._free:
            return None
        block = self._free.pop()
        self._refs[block] = 1
        return block

    def share(self, block: int) -> None:
        """Add a user to a held or cached block."""
        if self._refs[block] == 0:
            assert self._in_tree[block], f"block {block} is free and cannot be shared"
            self._num_cached -= 1
        self._refs[block] += 1

    def release(self, block: int) -> None:
        """Take a user away; without users the block becomes cached or free."""
        assert self._refs[block] > 0, f"block {block} has no user to release"
        self._refs[block] -= 1
        if self._refs[block] == 0:
            if self._in_tree[block]:
                self._num_cached += 1
            else:
                self._free.append(block)

    def enter_tree(self, block: int) -> None:
        """Record that the prefix tree keeps a held block from now on."""
        assert self._refs[block] > 0 and not self._in_tree[block]
        self._in_tree[block] = 1

    def leave_tree(self, block: int) -> None:
        """Record that the prefix tree gave up a cached block, which is then free."""
        assert self._refs[block] == 0 and self._in_tree[block]
        self._in_tree[block] = 0
        self._num_cached -= 1
        self._free.append(block)

    def check(self, users: Iterable[int], tree_blocks: Iterable[int]) -> None:
        """Recompute the books from every use of a block and every block of the tree."""
        counts = Counter(users)
        in_tree = Counter(tree_blocks)
        assert all(n == 1 for n in in_tree.values()), "a block appears twice in the tree"
        free = set(self._free)
        assert len(free) == len(self._free), "a block is twice in the free list"
        num_cached = 0
        for block in range(NUM_RESERVED_BLOCKS, self.num_blocks + NUM_RESERVED_BLOCKS):
            assert self._refs[block] == counts[block], f"count of block {block} drifted"
            assert bool(self._in_tree[block]) == (block in in_tree), f"block {block}: tree flag"
            is_used = counts[block] > 0 or block in in_tree
            assert is_used != (block in free), f"block {block} is both used and free, or neither"
            num_cached += counts[block] == 0 and block in in_tree
        assert num_cached == self._num_cached, "number of cached blocks drifted"
        for block in (READ_PAD_BLOCK, WRITE_PAD_BLOCK):
            assert not counts[block] and block not in in_tree and block not in free
