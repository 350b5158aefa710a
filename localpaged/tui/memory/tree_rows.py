"""The prefix tree as rows: a branch each, with its cost, its users and what sharing it saves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from localpaged.engine.inspection import Inspection, TreeNode


class Node(Protocol):
    """What hangs in a tree: its number, and that of what it hangs from."""

    @property
    def id(self) -> int:
        """A number of its own."""

    @property
    def parent_id(self) -> int | None:
        """None at the top."""


N = TypeVar("N", bound=Node)
Guides = tuple[bool, ...]
"""For each level above whether a line goes on there; the last one is a row's own."""


class BranchRow(Protocol):
    """What is drawn of a branch, wherever it was looked at."""

    @property
    def id(self) -> int:
        """The number of its first node."""

    @property
    def guides(self) -> Guides:
        """Where lines go on beside it."""

    @property
    def num_blocks(self) -> int:
        """Blocks of the branch alone."""

    @property
    def saved_blocks(self) -> int:
        """Blocks that sharing the branch saves."""

    @property
    def refs(self) -> int:
        """Who holds its first block now."""

    @property
    def users(self) -> int:
        """Who would need blocks of their own."""

    @property
    def is_pinned(self) -> bool:
        """Whether a pin holds something of it."""

    @property
    def is_new_chat(self) -> bool:
        """Whether it is of other chats than what it hangs from."""

    def has(self, node_id: int) -> bool:
        """Whether a node is part of the row."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A branch as it is shown: nodes that nothing branches off from between are one.

    `guides` tells for each level above whether a line goes on there; the last entry is the row's
    own: whether neighbours follow. `below_blocks` are in everything that goes on from it.
    """

    nodes: tuple[TreeNode, ...]
    guides: Guides
    below_blocks: int
    is_new_chat: bool

    @property
    def id(self) -> int:
        """The number of its first node."""
        return self.top.id

    @property
    def refs(self) -> int:
        """Who holds its first block now."""
        return self.top.refs

    @property
    def users(self) -> int:
        """Who would need blocks of their own."""
        return self.top.users

    @property
    def is_pinned(self) -> bool:
        """Whether a pin holds something of it."""
        return bool(self.pins)

    @property
    def top(self) -> TreeNode:
        """Where the branch begins: evicting it evicts all of it."""
        return self.nodes[0]

    @property
    def bottom(self) -> TreeNode:
        """Where the branch ends: pinning it pins all of it."""
        return self.nodes[-1]

    @property
    def num_blocks(self) -> int:
        """Blocks of the branch alone."""
        return sum(len(node.blocks) for node in self.nodes)

    @property
    def saved_blocks(self) -> int:
        """Blocks that sharing the branch saves."""
        return sum(node.saved_blocks for node in self.nodes)

    @property
    def pins(self) -> tuple[str, ...]:
        """What pins hold of it."""
        return tuple(dict.fromkeys(key for node in self.nodes for key in node.pins))

    @property
    def num_cached(self) -> int:
        """Blocks of it that can be evicted."""
        return sum(node.num_cached for node in self.nodes)

    def has(self, node_id: int) -> bool:
        """Whether a node is part of the row."""
        return any(node.id == node_id for node in self.nodes)


def tree_rows(seen: Inspection) -> list[TreeRow]:
    """Return the tree's rows from above to below."""
    below: dict[int | None, int] = defaultdict(int)
    for node in reversed(seen.nodes):
        below[node.parent_id] += len(node.blocks) + below[node.id]
    rows: list[TreeRow] = []
    for run, guides, parent in laid_out(seen.nodes, _is_same):
        above = parent.chats if parent is not None else ()
        rows.append(TreeRow(run, guides, below[run[-1].id], run[0].chats != above))
    return rows


def laid_out(
    nodes: Sequence[N], is_same: Callable[[N, N], bool]
) -> Iterator[tuple[tuple[N, ...], Guides, N | None]]:
    """Yield from above to below: nodes that are one row, its guides, what it hangs from.

    A node and the only one that hangs from it are one row when `is_same` says so.
    """
    children: dict[int | None, list[N]] = defaultdict(list)
    for node in nodes:
        children[node.parent_id].append(node)
    # A stack, not recursion: a chat of a thousand turns may be a thousand nodes deep.
    stack = _pushed(children[None], (), None)
    while stack:
        node, guides, parent = stack.pop()
        run = [node]
        while len(children[run[-1].id]) == 1 and is_same(children[run[-1].id][0], run[-1]):
            run.append(children[run[-1].id][0])
        yield tuple(run), guides, parent
        stack += _pushed(children[run[-1].id], guides, run[-1])


def row_of_block(rows: list[TreeRow], seen: Inspection, block: int) -> int | None:
    """Return the place of the row that a block is in."""
    place = seen.place(block)
    if place is None:
        return None
    return next((i for i, row in enumerate(rows) if row.has(place[0].id)), None)


def label_of(row: TreeRow, title_of: Callable[[str], str], spell: Callable[[TreeNode], str]) -> str:
    """Return what a row is called: its chat or their number, and how its text begins."""
    text = " ".join(spell(row.top).split())
    quoted = f"“{text}…”" if text else ""
    if not row.is_new_chat:
        return quoted
    chats = row.top.chats
    who = title_of(chats[0]) if len(chats) == 1 else f"{len(chats)} chats" if chats else ""
    return f"{who}  {quoted}".strip()


def _is_same(child: TreeNode, parent: TreeNode) -> bool:
    return (child.chats, child.pins, child.refs) == (parent.chats, parent.pins, parent.refs)


def _pushed(
    nodes: Sequence[N], guides: Guides, parent: N | None
) -> list[tuple[N, Guides, N | None]]:
    last = len(nodes) - 1
    return [
        (node, (*guides, place < last), parent) for place, node in reversed(list(enumerate(nodes)))
    ]
