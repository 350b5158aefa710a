"""The prefix tree and the chats of a snapshot, made of an Inspection; bounded in size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from localpaged.engine.inspection import BlockTable, Inspection, TreeNode
from localpaged.engine.snapshot import EngineSnapshot, SequenceView
from localpaged.stats.schema import MAX_CHATS, MAX_TREE_NODES, ChatStats, Tree, TreeBranch

TitlesOf = Callable[[Iterable[str]], Mapping[str, str]]

WAITING, PREFILL, DECODE, CACHED = "waiting", "prefill", "decode", "cached"
_RANK = {DECODE: 0, PREFILL: 1, WAITING: 2, CACHED: 3}


def tree_of(inspection: Inspection) -> Tree:
    """Return the tree; of more than MAX_TREE_NODES branches the largest, with all above them."""
    nodes = inspection.nodes
    return Tree(
        num_branches=len(nodes),
        num_blocks=sum(len(node.blocks) for node in nodes),
        depth_blocks=max((node.start_blocks + len(node.blocks) for node in nodes), default=0),
        saved_blocks=inspection.saved_blocks,
        branches=tuple(map(_branch, _largest(nodes))),
    )


def chats_of(
    snapshot: EngineSnapshot, inspection: Inspection | None, titles: TitlesOf
) -> tuple[tuple[ChatStats, ...], int]:
    """Return the chats with KV or in the queue, the busiest first, and how many there are.

    Without an inspection only those that run or wait.
    """
    found = _live(snapshot, inspection)
    if inspection is not None:
        _add_cached(found, inspection)
    ordered = sorted(found.values(), key=lambda c: (_RANK[c.state], -c.tokens, c.chat_id))
    told = ordered[:MAX_CHATS]
    names = titles(chat.chat_id for chat in told)
    return tuple(replace(c, title=names.get(c.chat_id, "")) for c in told), len(ordered)


@dataclass(slots=True)
class _Cost:
    own: int = 0
    shared: int = 0


def _live(snapshot: EngineSnapshot, inspection: Inspection | None) -> dict[str, ChatStats]:
    views: dict[str, list[SequenceView]] = {}
    for view in snapshot.sequences:
        views.setdefault(view.chat_id, []).append(view)
    costs = {} if inspection is None else _live_costs(inspection)
    found = {}
    for chat_id, parts in views.items():
        own = sum(view.own_blocks for view in parts)
        cost = costs.get(chat_id, _Cost(own, max(view.shared_blocks for view in parts)))
        places = [view.queue_position for view in parts if view.queue_position is not None]
        found[chat_id] = ChatStats(
            chat_id=chat_id,
            title="",
            state=min((view.state for view in parts), key=_RANK.__getitem__),
            sequences=len(parts),
            queue_position=min(places, default=None),
            tokens=sum(view.num_tokens for view in parts),
            computed_tokens=sum(view.num_computed for view in parts),
            own_blocks=cost.own,
            shared_blocks=cost.shared,
        )
    return found


def _live_costs(inspection: Inspection) -> dict[str, _Cost]:
    """Count the blocks of running chats: shared are those that another chat has, or ever had."""
    users: dict[int, set[str]] = {}
    for node in inspection.nodes:
        for block in node.blocks:
            users[block] = set(node.chats)
    tables: dict[str, list[BlockTable]] = {}
    for table in inspection.tables:
        tables.setdefault(table.chat_id, []).append(table)
        for block in table.blocks:
            users.setdefault(block, set()).add(table.chat_id)
    costs = {}
    for chat_id, parts in tables.items():
        blocks = {block for table in parts for block in table.blocks}
        shared = sum(len(users[block]) > 1 for block in blocks)
        costs[chat_id] = _Cost(len(blocks) - shared, shared)
    return costs


def _add_cached(found: dict[str, ChatStats], inspection: Inspection) -> None:
    """Add chats that do not run, with what the tree keeps of them."""
    costs: dict[str, _Cost] = {}
    for node in inspection.nodes:
        for chat_id in node.chats:
            if chat_id and chat_id not in found:
                cost = costs.setdefault(chat_id, _Cost())
                if len(node.chats) > 1:
                    cost.shared += len(node.blocks)
                else:
                    cost.own += len(node.blocks)
    for chat_id, cost in costs.items():
        tokens = (cost.own + cost.shared) * inspection.block_size
        found[chat_id] = ChatStats(
            chat_id, "", CACHED, tokens=tokens, computed_tokens=tokens,
            own_blocks=cost.own, shared_blocks=cost.shared,
        )  # fmt: skip


def _largest(nodes: Sequence[TreeNode]) -> list[TreeNode]:
    if len(nodes) <= MAX_TREE_NODES:
        return list(nodes)
    by_id = {node.id: node for node in nodes}
    kept: set[int] = set()
    for node in sorted(nodes, key=lambda node: len(node.blocks), reverse=True):
        way: list[int] = []
        at: TreeNode | None = node
        while at is not None and at.id not in kept:
            way.append(at.id)
            at = None if at.parent_id is None else by_id.get(at.parent_id)
        if len(kept) + len(way) <= MAX_TREE_NODES:
            kept.update(way)
    return [node for node in nodes if node.id in kept]


def _branch(node: TreeNode) -> TreeBranch:
    return TreeBranch(
        id=node.id,
        parent_id=node.parent_id,
        start_blocks=node.start_blocks,
        num_blocks=len(node.blocks),
        cached_blocks=node.num_cached,
        refs=node.refs,
        num_chats=len(node.chats),
        chat_id=node.chats[0] if len(node.chats) == 1 else "",
        is_pinned=bool(node.pins),
    )
