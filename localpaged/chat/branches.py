"""The versions of a chat's lines: a tree of the places that belong to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from localpaged.store.lineage import Lineage
from localpaged.store.rows import Siblings
from localpaged.store.store import Store


@dataclass(slots=True)
class _Node:
    """A message, or an open answer. `order` grows with the time it was first made."""

    key: str
    parent: str | None
    role: str
    order: int
    is_empty: bool = False
    is_open: bool = False


def end_of_way(store: Store, chat_id: str, message_hash: str) -> str:
    """Return where a chat goes on from a message: an answer may be, word for word, one that it
    had, and what was said below that must not get out of reach."""
    if not store.has_replies(message_hash):
        return message_hash
    tree = BranchTree(store.lineage(chat_id))
    return tree.newest_leaf(message_hash) if tree.has(message_hash) else message_hash


class BranchTree:
    """Finds siblings and leaves. Built from one read of the history, then frozen. Any thread.

    Invariant: children are in the order they were made, what the chat began with first.
    """

    def __init__(self, lineage: Lineage) -> None:
        self._nodes: dict[str, _Node] = {}
        self._children: dict[str | None, list[_Node]] = defaultdict(list)
        made = {key for turn in lineage.turns for key in (turn.parent_hash, turn.tip_hash) if key}
        for place in lineage.places.values():
            if place.hash not in made:
                self._add(place.hash, place.parent_hash, place.role, is_empty=place.is_empty)
        for turn in lineage.turns:
            for key in (turn.parent_hash, turn.tip_hash):
                if key is not None and key in lineage.places:
                    place = lineage.places[key]
                    self._add(key, place.parent_hash, place.role, is_empty=place.is_empty)
            if turn.is_asked_last:
                self._add(turn.id, turn.parent_hash, "assistant", is_open=True)

    def has(self, key: str) -> bool:
        """Whether a line belongs to the chat."""
        return key in self._nodes

    def siblings(self, key: str) -> Siblings | None:
        """Return the versions of a line; None when there is no other.

        Answers that ended without a word and were not replied to are left out, but for `key`.
        """
        node = self._nodes.get(key)
        if node is None:
            return None
        versions = [
            other.key
            for other in self._children[node.parent]
            if other.role == node.role
            and (other is node or not other.is_empty or self._children.get(other.key))
        ]
        return Siblings(tuple(versions), versions.index(key)) if len(versions) > 1 else None

    def newest_leaf(self, key: str) -> str:
        """Return the message that ends the way through `key` made last. Raises KeyError."""
        leaf = max(self._leaves(self._nodes[key]), key=lambda leaf: leaf.order)
        # an answer without an end hangs at its question
        return leaf.parent if leaf.is_open and leaf.parent is not None else leaf.key

    def _add(
        self,
        key: str,
        parent: str | None,
        role: str,
        *,
        is_empty: bool = False,
        is_open: bool = False,
    ) -> None:
        if key in self._nodes:
            return
        node = _Node(key, parent, role, len(self._nodes), is_empty, is_open)
        self._nodes[key] = node
        self._children[parent].append(node)

    def _leaves(self, node: _Node) -> list[_Node]:
        """Return the leaves below a node, itself when there is nothing below it."""
        leaves: list[_Node] = []
        rest = [node]
        while rest:
            top = rest.pop()
            children = self._children.get(top.key)
            if children:
                rest += children
            else:
                leaves.append(top)
        return leaves
