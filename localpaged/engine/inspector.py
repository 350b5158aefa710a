"""Looks at one model's pool, prefix tree and pins between two steps. Only when somebody asks."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from operator import add

from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS as RESERVED
from localpaged.engine.inspection import (
    AGE_BOUNDS_S,
    FIRST_CHAT,
    MAX_CHATS,
    MAX_REFS,
    NO_OWNER,
    OTHER_OWNER,
    SEVERAL_OWNERS,
    BlockState,
    BlockTable,
    BlockTokens,
    Inspection,
    PinView,
    TreeNode,
)
from localpaged.engine.kv_manager import KVManager
from localpaged.engine.prefix_tree import Branch
from localpaged.engine.sequence import Sequence

# From 1 for a block that is held plus 2 for one in the tree, to its state.
_STATES = bytes((BlockState.FREE, BlockState.HELD, BlockState.CACHED, BlockState.HELD))
_STATE_OF = _STATES + bytes(256 - len(_STATES))
_IS_HELD = bytes([0]) + bytes([1]) * 255
_IN_TREE = bytes([0, 2]) + bytes(254)


def inspect(
    kv: KVManager,
    running: Iterable[Sequence],
    *,
    now_s: float,
    context_blocks: int = 0,
    model_name: str = "",
    block_bytes: int = 0,
) -> Inspection:
    """Return what lies in every block; `now_s` is on the clock that the tree was given.

    `context_blocks` is what a full context needs.
    """
    pool = kv.pool
    counts = pool.counts()
    refs = _saturated(counts)
    held = refs.translate(_IS_HELD)
    states = bytearray(map(add, held, pool.tree_flags().translate(_IN_TREE)))
    states = states.translate(_STATE_OF)
    for block in kv.pins.users():
        states[block] = BlockState.PINNED
    owners, ages = bytearray(len(states)), bytearray(len(states))
    chats: dict[str, int] = {}
    pins = _pins_by_block(kv)
    nodes: list[TreeNode] = []
    last_used: list[int] = []
    for branch in kv.tree.branches():
        owner = _owner(branch.users, chats)
        age = age_of(now_s - branch.used_s)
        for block in branch.blocks:
            owners[block] = owner
            ages[block] = age
        nodes.append(_node(branch, counts, pins, age=age))
        last_used.append(branch.last_used)
    missing = context_blocks - (kv.num_available - pool.num_cached)
    going = bytearray(len(states) - RESERVED)
    for block in _first_to_go(nodes, last_used, missing):
        going[block] = 1
    tables: list[BlockTable] = []
    for sequence in running:
        owner = _owner((sequence.request.chat_id,), chats)
        for block in sequence.block_table[sequence.num_published :]:
            owners[block] = owner
        for block in sequence.block_table:
            ages[block] = 0
        tables.append(_table(sequence, counts))
    return Inspection(
        model_name=model_name,
        block_size=kv.block_size,
        block_bytes=block_bytes,
        states=bytes(states[RESERVED:]),
        refs=refs[RESERVED:],
        ages=bytes(ages[RESERVED:]),
        owners=bytes(owners[RESERVED:]),
        going=bytes(going),
        chats=tuple(chats)[:MAX_CHATS],
        max_blocks=kv.max_blocks,
        host_used_blocks=kv.host.num_used,
        nodes=tuple(nodes),
        tables=tuple(tables),
        pins=tuple(pin_view(kv, key) for key in kv.pins.keys),
    )


def block_tokens(kv: KVManager, running: Iterable[Sequence], block: int) -> BlockTokens | None:
    """Return the tokens of one block, numbered as in an Inspection; None when it has none."""
    physical = block + RESERVED
    for branch in kv.tree.branches():
        if physical in branch.blocks:
            place = branch.blocks.index(physical)
            position = (branch.start + place) * kv.block_size
            return BlockTokens(block, position, tuple(branch.keys[place]))
    for sequence in running:
        if physical in sequence.block_table:
            position = sequence.block_table.index(physical) * kv.block_size
            end = min(position + kv.block_size, sequence.num_computed)
            return BlockTokens(block, position, tuple(sequence.tokens[position:end]))
    return None


def pin_view(kv: KVManager, key: str) -> PinView:
    """Return how far a pin is; one that does not exist has no blocks."""
    pin = kv.pins.get(key)
    return PinView(key, len(pin.keys), len(pin.blocks)) if pin else PinView(key, 0, 0)


def age_of(seconds: float) -> int:
    """Return the byte that tells of something last used `seconds` ago."""
    return bisect_left(AGE_BOUNDS_S, seconds + 1e-9)


def _first_to_go(nodes: list[TreeNode], last_used: list[int], count: int) -> list[int]:
    """Return the blocks that are evicted when `count` are needed, in that order."""
    places = {node.id: place for place, node in enumerate(nodes)}
    children = Counter(node.parent_id for node in nodes)
    leaves = [(last_used[i], i) for i, node in enumerate(nodes) if not children[node.id]]
    heapq.heapify(leaves)
    going: list[int] = []
    while leaves and len(going) < count:
        node = nodes[heapq.heappop(leaves)[1]]
        size = len(node.blocks)
        kept = max(size - node.num_cached, size - (count - len(going)))
        going += reversed(node.blocks[kept:])
        if kept == 0 and node.parent_id is not None:
            children[node.parent_id] -= 1
            if not children[node.parent_id]:
                place = places[node.parent_id]
                heapq.heappush(leaves, (last_used[place], place))
    return going


def _saturated(counts: list[int]) -> bytes:
    try:
        return bytes(counts)
    except ValueError:
        return bytes(min(count, MAX_REFS) for count in counts)


def _owner(users: Iterable[str], chats: dict[str, int]) -> int:
    known = [user for user in users if user]
    for user in known:
        chats.setdefault(user, FIRST_CHAT + len(chats))
    if len(known) > 1:
        return SEVERAL_OWNERS
    if not known:
        return NO_OWNER
    owner = chats[known[0]]
    return owner if owner < FIRST_CHAT + MAX_CHATS else OTHER_OWNER


def _pins_by_block(kv: KVManager) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for key in kv.pins.keys:
        pin = kv.pins.get(key)
        for block in pin.blocks if pin else ():
            found.setdefault(block, []).append(key)
    return found


def _node(branch: Branch, counts: list[int], pins: dict[int, list[str]], *, age: int) -> TreeNode:
    blocks = branch.blocks
    # Held is closed upwards: what nobody holds is the end of the branch.
    num_held = bisect_left(blocks, True, key=lambda block: counts[block] == 0)
    return TreeNode(
        id=branch.id,
        parent_id=branch.parent_id,
        start_blocks=branch.start,
        blocks=tuple(block - RESERVED for block in blocks),
        refs=counts[blocks[0]],
        chats=tuple(sorted(branch.users)),
        first_tokens=tuple(branch.keys[0]),
        pins=tuple(pins.get(blocks[0], ())),
        num_cached=len(blocks) - num_held,
        age=0 if num_held else age,
    )


def _table(sequence: Sequence, counts: list[int]) -> BlockTable:
    return BlockTable(
        request_id=sequence.request.id,
        chat_id=sequence.request.chat_id,
        num_tokens=len(sequence.tokens),
        blocks=tuple(block - RESERVED for block in sequence.block_table),
        shared_blocks=sum(counts[block] > 1 for block in sequence.block_table),
    )
