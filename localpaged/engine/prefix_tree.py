"""PrefixTree: which block holds the KV of which prefix. A radix tree over token ids.

Edges are runs of whole blocks and children are found by the exact tokens of their first block,
so no hash is ever trusted (RadixAttention, SGLang, arXiv 2312.07104, section 3).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

BlockKey = tuple[int, ...]
"""The tokens of one full block."""

OnEvict = Callable[[list[BlockKey], list[int]], None]

MAX_USERS = 1_000
"""So many users of a branch are known; a system prompt may see more in the life of a program."""
STALE_ENTRIES_PER_NODE = 4
"""The eviction heap is rebuilt when it has this many entries a node."""


@dataclass(frozen=True, slots=True)
class PartialMatch:
    """The first `num_tokens` tokens of `block` continue the matched prefix."""

    block: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Match:
    """The longest known prefix: whole `blocks`, then perhaps the start of one more."""

    blocks: tuple[int, ...]
    partial: PartialMatch | None


class Branch(NamedTuple):
    """An edge as it is now, to be read at once: `id` is never used again for another one.

    `start` blocks lie before it. `users` are who ever went through it while it was there, the first
    `MAX_USERS` of them.
    What was used last has the largest `last_used`.
    """

    id: int
    parent_id: int | None
    start: int
    keys: Sequence[BlockKey]
    blocks: Sequence[int]
    users: AbstractSet[str]
    used_s: float
    last_used: int


class _Node:
    """An edge from its parent: `keys[i]` are the tokens whose KV is in `blocks[i]`."""

    __slots__ = ("blocks", "children", "id", "keys", "last_used", "parent", "used_s", "users")

    def __init__(
        self, node_id: int, parent: _Node | None, keys: list[BlockKey], blocks: list[int]
    ) -> None:
        self.id = node_id
        self.parent = parent
        self.keys = keys
        self.blocks = blocks
        self.children: dict[BlockKey, _Node] = {}
        self.last_used = 0
        self.used_s = 0.0
        self.users: set[str] = set()


class PrefixTree:
    """Prefixes of one namespace (model, KV dtype, block size). Engine thread only.

    Invariants: a block appears once; a node's key in its parent is its first block's tokens;
    only the root is empty; who went through a node went through its parent. Who holds a block now
    is not known here: eviction asks.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock
        self._root = _Node(0, None, [], [])
        self._last_id = 0
        self._clock = 0
        self._num_nodes = 0
        self._heap: list[tuple[int, int, _Node]] = []
        self._entries = 0

    def match(self, keys: Sequence[BlockKey], tail: Sequence[int], *, user: str = "") -> Match:
        """Find the longest known prefix of `keys` followed by the unaligned tokens `tail`.

        What matched becomes recent, and nothing else: an edge in which the match ends is split.
        """
        self._clock += 1
        blocks: list[int] = []
        node, index = self._root, 0
        while index < len(keys):
            child = node.children.get(keys[index])
            if child is None:
                break
            node = self._upper_part(child, _common_blocks(child.keys, keys, index))
            blocks += node.blocks
            index += len(node.blocks)
            self._use(node, user)
        wanted = keys[index] if index < len(keys) else tail
        return Match(tuple(blocks), self._best_partial(node, wanted))

    def find(self, keys: Sequence[BlockKey]) -> list[int]:
        """Return the blocks of the longest known prefix of `keys`; nothing becomes recent."""
        blocks: list[int] = []
        node, num_common = self._root, 0
        while num_common == len(node.blocks) and len(blocks) < len(keys):
            if (child := node.children.get(keys[len(blocks)])) is None:
                break
            node, num_common = child, _common_blocks(child.keys, keys, len(blocks))
            blocks += child.blocks[:num_common]
        return blocks

    def insert(
        self, keys: Sequence[BlockKey], blocks: Sequence[int], *, user: str = ""
    ) -> list[int]:
        """Make the prefix `keys`, whose KV is in `blocks`, known; return its canonical blocks.

        Where the tree already has a block for a prefix, that one is canonical and the caller's
        stays outside of the tree. The caller owns the blocks and drops its duplicates.
        """
        assert len(keys) == len(blocks)
        self._clock += 1
        canonical: list[int] = []
        node, index = self._root, 0
        while index < len(keys):
            child = node.children.get(keys[index])
            if child is None:
                canonical += blocks[index:]
                self._append(node, list(keys[index:]), list(blocks[index:]), user)
                break
            node = self._upper_part(child, _common_blocks(child.keys, keys, index))
            canonical += node.blocks
            index += len(node.blocks)
            self._use(node, user)
        return canonical

    def evict(
        self, count: int, can_evict: Callable[[int], bool], on_evict: OnEvict | None = None
    ) -> list[int]:
        """Give up to `count` blocks up: leaves first, the least recently used first.

        `can_evict` tells whether nobody uses a block. A block is only given up after
        everything below it, so no prefix ever loses its beginning. `on_evict` is told the keys
        of each prefix that loses its end, and the blocks of that end in their order.
        """
        evicted: list[int] = []
        held: list[_Node] = []
        while len(evicted) < count and self._heap:
            last_used, _, node = heapq.heappop(self._heap)
            if node.children or not node.blocks or node.last_used != last_used:
                continue
            size = len(node.blocks)
            keep = size
            while keep and size - keep < count - len(evicted) and can_evict(node.blocks[keep - 1]):
                keep -= 1
            evicted += self._cut(node, keep, on_evict)
            if node.blocks:
                held.append(node)
        for node in held:
            self._push(node)
        return evicted

    def evict_branch(
        self,
        node_id: int,
        offset: int,
        can_evict: Callable[[int], bool],
        on_evict: OnEvict | None = None,
    ) -> list[int]:
        """Give up a branch's blocks from `offset` on and everything below it, leaves first.

        What is used stays, and what it goes on from. An unknown branch has nothing to give.
        """
        top = next((node for node in self._nodes() if node.id == node_id), None)
        evicted: list[int] = []
        for node in reversed(list(self._nodes(top)) if top else []):
            if node.children:
                continue
            keep, least = len(node.blocks), offset if node is top else 0
            while keep > least and can_evict(node.blocks[keep - 1]):
                keep -= 1
            evicted += self._cut(node, keep, on_evict)
        return evicted

    def discard(self, keys: Sequence[BlockKey], can_evict: Callable[[int], bool]) -> list[int]:
        """Give up what is known of the prefix `keys`, from its end on, as far as it ends there.

        Stops at a block that is used and where another prefix goes on.
        """
        node, index, common = self._root, 0, 0
        while index < len(keys):
            child = node.children.get(keys[index])
            if child is None:
                break
            node, common = child, _common_blocks(child.keys, keys, index)
            index += common
            if common < len(child.keys):
                return []
        discarded: list[int] = []
        while node.blocks and not node.children:
            key = node.keys[0]
            while node.blocks and can_evict(node.blocks[-1]):
                discarded.append(node.blocks.pop())
                node.keys.pop()
            if node.blocks:
                self._push(node)
                break
            assert node.parent is not None
            self._remove(node, key)
            node = node.parent
        return discarded

    def blocks(self) -> Iterator[int]:
        """Every block of the tree."""
        for node in self._nodes():
            yield from node.blocks

    def branches(self) -> Iterator[Branch]:
        """Every edge, each after the one it goes on from and before its neighbours."""
        starts = {self._root.id: 0}
        for node in self._nodes():
            if node.parent is None:
                continue
            start = starts[node.parent.id]
            starts[node.id] = start + len(node.blocks)
            above = None if node.parent is self._root else node.parent.id
            yield Branch(
                node.id,
                above,
                start,
                node.keys,
                node.blocks,
                node.users,
                node.used_s,
                node.last_used,
            )

    def path(self, node_id: int) -> list[BlockKey]:
        """Return the keys of the whole prefix that ends with a branch; empty when it is unknown."""
        return next((_path(node) for node in self._nodes() if node.id == node_id), [])

    def paths(self) -> Iterator[tuple[tuple[BlockKey, ...], int]]:
        """Every block with the tokens of the whole prefix that ends in it."""
        stack: list[tuple[_Node, tuple[BlockKey, ...]]] = [(self._root, ())]
        while stack:
            node, prefix = stack.pop()
            for key, block in zip(node.keys, node.blocks, strict=True):
                prefix = (*prefix, key)
                yield prefix, block
            stack += [(child, prefix) for child in node.children.values()]

    def check(self) -> None:
        """Recompute the tree's shape; that each leaf can be found for eviction, too."""
        in_heap = {id(node) for used, _, node in self._heap if node.last_used == used}
        stack, num_nodes = [self._root], 0
        while stack:
            node = stack.pop()
            for key, child in node.children.items():
                num_nodes += 1
                assert child.parent is node and child.keys[0] == key
                assert len(child.keys) == len(child.blocks) > 0
                assert child.last_used <= node.last_used or node is self._root, "parent is older"
                is_full = node is self._root or len(node.users) == MAX_USERS
                assert child.users <= node.users or is_full, "a user fell from the sky"
                assert child.children or id(child) in in_heap, "a leaf cannot be evicted"
                stack.append(child)
        assert num_nodes == self._num_nodes

    def _nodes(self, top: _Node | None = None) -> Iterator[_Node]:
        """`top`, the root by default, and everything below it, from above to below."""
        stack = [top or self._root]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children.values())

    def _append(self, node: _Node, keys: list[BlockKey], blocks: list[int], user: str) -> None:
        # Where several went through a node, what one of them adds is a branch of its own.
        if node is not self._root and not node.children and len(node.users) < 2:
            node.keys += keys
            node.blocks += blocks
            return
        child = self._make(node, keys, blocks)
        node.children[keys[0]] = child
        self._use(child, user)

    def _make(self, parent: _Node, keys: list[BlockKey], blocks: list[int]) -> _Node:
        self._num_nodes += 1
        self._last_id += 1
        return _Node(self._last_id, parent, keys, blocks)

    def _upper_part(self, node: _Node, num_blocks: int) -> _Node:
        return node if num_blocks == len(node.blocks) else self._split(node, num_blocks)

    def _split(self, node: _Node, at: int) -> _Node:
        """Cut an edge in two; return the upper part, which keeps its place in the parent."""
        assert node.parent is not None and 0 < at < len(node.keys)
        upper = self._make(node.parent, node.keys[:at], node.blocks[:at])
        upper.last_used, upper.used_s, upper.users = node.last_used, node.used_s, set(node.users)
        node.parent.children[upper.keys[0]] = upper
        node.parent, node.keys, node.blocks = upper, node.keys[at:], node.blocks[at:]
        upper.children[node.keys[0]] = node
        return upper

    def _cut(self, node: _Node, keep: int, on_evict: OnEvict | None) -> list[int]:
        """Take the blocks behind the first `keep` out of a leaf; return them, the last first."""
        cut = node.blocks[keep:]
        if not cut:
            return []
        if on_evict is not None:
            on_evict(_path(node), cut)
        key = node.keys[0]
        del node.blocks[keep:], node.keys[keep:]
        if not node.blocks:
            self._remove(node, key)
        return cut[::-1]

    def _remove(self, node: _Node, key: BlockKey) -> None:
        assert node.parent is not None
        del node.parent.children[key]
        self._num_nodes -= 1
        if node.parent is not self._root and not node.parent.children:
            self._push(node.parent)

    def _use(self, node: _Node, user: str) -> None:
        if user and len(node.users) < MAX_USERS:
            node.users.add(user)
        self._touch(node)

    def _touch(self, node: _Node) -> None:
        node.last_used = self._clock
        node.used_s = self._clock_s()
        if not node.children:
            self._push(node)

    def _push(self, node: _Node) -> None:
        if len(self._heap) > STALE_ENTRIES_PER_NODE * (self._num_nodes + 16):
            leaves = {id(n): n for used, _, n in self._heap if n.last_used == used and n.blocks}
            self._heap = [(n.last_used, i, n) for i, n in enumerate(leaves.values())]
            heapq.heapify(self._heap)
        self._entries += 1
        heapq.heappush(self._heap, (node.last_used, self._entries, node))

    def _best_partial(self, node: _Node, wanted: Sequence[int]) -> PartialMatch | None:
        """Find the block below `node` that begins most like `wanted`."""
        best_tokens, best = 0, node
        for key, child in node.children.items():
            num_tokens = _common_tokens(key, wanted)
            if num_tokens > best_tokens:
                best_tokens, best = num_tokens, child
        if not best_tokens:
            return None
        if 2 * best_tokens >= len(best.keys[0]):
            # A few common tokens, a template's first words, must not keep a whole chat recent.
            best = self._upper_part(best, 1)
            self._touch(best)
        return PartialMatch(best.blocks[0], best_tokens)


def _path(node: _Node) -> list[BlockKey]:
    """Return the keys of the whole prefix that ends with `node`."""
    parts: list[list[BlockKey]] = []
    above: _Node | None = node
    while above is not None:
        parts.append(above.keys)
        above = above.parent
    return [key for keys in reversed(parts) for key in keys]


def _common_blocks(edge: Sequence[BlockKey], keys: Sequence[BlockKey], start: int) -> int:
    limit = min(len(edge), len(keys) - start)
    if edge[:limit] == keys[start : start + limit]:  # the usual case, at the speed of C
        return limit
    for i in range(limit):
        if edge[i] != keys[start + i]:
            return i
    return limit


def _common_tokens(a: Sequence[int], b: Sequence[int]) -> int:
    limit = min(len(a), len(b))
    for i in range(limit):
        if a[i] != b[i]:
            return i
    return limit
