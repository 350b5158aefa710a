"""The prefix tree as rows: a branch each, with its cost, its users and what sharing it saves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from localpaged.engine.inspection import Inspection, TreeNode


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A branch as it is shown: nodes that nothing branches off from between are one.

    `guides` tells for each level above whether a line goes on there; the last entry is the row's
    own: whether neighbours follow. `below_blocks` are in everything that goes on from it.
    """

    nodes: tuple[TreeNode, ...]
    guides: tuple[bool, ...]
    below_blocks: int
    is_new_chat: bool

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
    children: dict[int | None, list[TreeNode]] = defaultdict(list)
    below: dict[int | None, int] = defaultdict(int)
    for node in seen.nodes:
        children[node.parent_id].append(node)
    for node in reversed(seen.nodes):
        below[node.parent_id] += len(node.blocks) + below[node.id]
    rows: list[TreeRow] = []
    # A stack, not recursion: a chat of a thousand turns may be a thousand nodes deep.
    stack = _pushed(children[None], (), ())
    while stack:
        node, guides, chats = stack.pop()
        run = [node]
        while (only := _only_child(children[run[-1].id], run[-1])) is not None:
            run.append(only)
        rows.append(TreeRow(tuple(run), guides, below[run[-1].id], node.chats != chats))
        stack += _pushed(children[run[-1].id], guides, node.chats)
    return rows


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


def _only_child(children: list[TreeNode], parent: TreeNode) -> TreeNode | None:
    if len(children) != 1:
        return None
    child = children[0]
    is_same = (child.chats, child.pins, child.refs) == (parent.chats, parent.pins, parent.refs)
    return child if is_same else None


def _pushed(
    nodes: list[TreeNode], guides: tuple[bool, ...], chats: tuple[str, ...]
) -> list[tuple[TreeNode, tuple[bool, ...], tuple[str, ...]]]:
    last = len(nodes) - 1
    return [
        (node, (*guides, place < last), chats) for place, node in reversed(list(enumerate(nodes)))
    ]
