"""Compares what an inspection tells with the books of pool, tree, pins and sequences."""

from __future__ import annotations

from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS as RESERVED
from localpaged.engine.core import EngineCore
from localpaged.engine.inspection import (
    FIRST_CHAT,
    NO_OWNER,
    SEVERAL_OWNERS,
    BlockState,
    Inspection,
    TreeNode,
)


def check_inspection(core: EngineCore) -> None:
    """Recompute every map of an inspection from the engine's own books."""
    seen, kv = core.inspect(), core.scheduler.kv
    pool, pinned = kv.pool, set(kv.pins.users())
    counts = [seen.count(state) for state in BlockState]
    assert sum(counts) == seen.num_blocks == pool.num_blocks <= seen.max_blocks
    assert counts[BlockState.FREE] == pool.num_free
    assert counts[BlockState.CACHED] == pool.num_cached
    assert counts[BlockState.PINNED] == len(pinned) == kv.pins.num_blocks
    for block in range(seen.num_blocks):
        assert seen.refs[block] == pool.refs(block + RESERVED)
        assert (seen.states[block] == BlockState.PINNED) == (block + RESERVED in pinned)
    paths = {block - RESERVED: path for path, block in kv.tree.paths()}
    assert sorted(paths) == sorted(block for node in seen.nodes for block in node.blocks)
    for node in seen.nodes:
        _check_node(seen, node)
        for place, block in enumerate(node.blocks):
            tokens = core.block_tokens(block)
            assert tokens is not None and tokens.token_ids == paths[block][-1]
            assert tokens.position == (len(paths[block]) - 1) * seen.block_size
            assert len(paths[block]) == node.start_blocks + place + 1
            assert seen.place(block) == (node, place)
            assert seen.owners[block] == _owner(seen, node)
    missing = core.scheduler.context_blocks - (kv.num_available - pool.num_cached)
    assert sum(seen.going) == max(0, min(missing, pool.num_cached))
    assert all(seen.states[b] == BlockState.CACHED for b, goes in enumerate(seen.going) if goes)
    running = core.scheduler.running
    assert [t.request_id for t in seen.tables] == [s.request.id for s in running]
    for table, sequence in zip(seen.tables, running, strict=True):
        assert [b + RESERVED for b in table.blocks] == sequence.block_table
        assert table.shared_blocks + table.own_blocks == len(table.blocks)
        for block in table.blocks:
            assert table in seen.holders(block)
            assert block in paths or seen.refs[block] >= 1
    known = set(paths) | {block for table in seen.tables for block in table.blocks}
    assert all(core.block_tokens(b) is None for b in set(range(seen.num_blocks)) - known)
    assert [pin.key for pin in seen.pins] == list(kv.pins.keys)


def is_below(node: TreeNode, other: TreeNode, seen: Inspection) -> bool:
    """Whether a branch goes on from another, directly or not."""
    above = node.parent_id
    while above is not None and above != other.id:
        parent = seen.node(above)
        above = None if parent is None else parent.parent_id
    return above == other.id


def _check_node(seen: Inspection, node: TreeNode) -> None:
    held = len(node.blocks) - node.num_cached
    states = [seen.states[block] for block in node.blocks]
    assert all(state != BlockState.CACHED for state in states[:held])
    assert all(state == BlockState.CACHED for state in states[held:])
    assert node.refs >= seen.refs[node.blocks[-1]]
    parent = None if node.parent_id is None else seen.node(node.parent_id)
    if parent is not None:
        assert set(node.chats) <= set(parent.chats) and node.refs <= parent.refs
        assert node.start_blocks == parent.start_blocks + len(parent.blocks)
    else:
        assert node.parent_id is None and node.start_blocks == 0


def _owner(seen: Inspection, node: TreeNode) -> int:
    if len(node.chats) > 1:
        return SEVERAL_OWNERS
    return FIRST_CHAT + seen.chats.index(node.chats[0]) if node.chats else NO_OWNER
