"""The map and the prefix tree of a snapshot, in the form that the widgets of memory draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from localpaged.engine.inspection import (
    AGE_BOUNDS_S,
    FIRST_CHAT,
    NO_OWNER,
    OTHER_OWNER,
    SEVERAL_OWNERS,
    BlockState,
    Inspection,
)
from localpaged.plain_text import visible
from localpaged.stats.schema import (
    MAP_ACTIVE,
    MAP_CACHED,
    MAP_FREE,
    MAP_PINNED,
    MAX_MAP_CELLS,
    OWNER_LETTERS,
    OWNER_NONE,
    OWNER_OTHER,
    OWNER_SEVERAL,
    BlockMap,
    ModelStats,
    Tree,
    TreeBranch,
)
from localpaged.tui.figures import byte_size, grouped
from localpaged.tui.memory.headlines import counted_blocks
from localpaged.tui.memory.tree_rows import Guides, laid_out
from localpaged.tui.memory.views import ChatColours, Picture, View, picture
from localpaged.tui.memory.words import STATE_WORDS, age_words

TitleOf = Callable[[str], str]
_STATES = {
    MAP_FREE: BlockState.FREE,
    MAP_ACTIVE: BlockState.HELD,
    MAP_CACHED: BlockState.CACHED,
    MAP_PINNED: BlockState.PINNED,
}
_OWNERS = {
    OWNER_NONE: NO_OWNER,
    OWNER_SEVERAL: SEVERAL_OWNERS,
    OWNER_OTHER: OTHER_OWNER,
    **{letter: FIRST_CHAT + place for place, letter in enumerate(OWNER_LETTERS)},
}
_OLDEST = len(AGE_BOUNDS_S)


def seen_of(block_map: BlockMap) -> Inspection:
    """Return the cells of a map as if each were one block; marks that are not known are free.

    Its four texts come from another program: what one of them has less is filled up, and what is
    beyond MAX_MAP_CELLS is left out.
    """
    count = min(len(block_map.states), MAX_MAP_CELLS)
    states = bytes(_STATES.get(mark, BlockState.FREE) for mark in block_map.states[:count])
    ages = bytes(min(_digit(mark), _OLDEST) for mark in block_map.ages)
    owners = bytes(_OWNERS.get(mark, OTHER_OWNER) for mark in block_map.owners)
    return Inspection(
        states=states,
        refs=_filled(bytes(_digit(mark) for mark in block_map.refs), count),
        ages=_filled(ages, count),
        owners=_filled(owners, count),
        going=bytes(count),
        chats=block_map.chats,
    )


def map_picture(
    block_map: BlockMap, seen: Inspection, view: View, *, colours: ChatColours, title_of: TitleOf
) -> Picture:
    """Return the classes of a map's cells in a view."""
    drawn = picture(seen, view, colours, title_of)
    return replace(drawn, blocks_per_class=block_map.blocks_per_cell)


def cell_words(block_map: BlockMap, seen: Inspection, cell: int, title_of: TitleOf) -> list[str]:
    """Return what is known of a cell of the map: which blocks, their state, whose, how old."""
    if not 0 <= cell < seen.num_blocks:
        return []
    each = block_map.blocks_per_cell
    first, last = cell * each, min((cell + 1) * each, block_map.num_blocks) - 1
    which = (
        f"block {grouped(first)}" if each == 1 else f"blocks {grouped(first)} to {grouped(last)}"
    )
    state = BlockState(seen.states[cell])
    words = [which, STATE_WORDS[state]]
    if state is BlockState.FREE:
        return words
    owner = seen.owners[cell]
    if owner == SEVERAL_OWNERS:
        words.append("several chats")
    elif owner >= FIRST_CHAT and owner - FIRST_CHAT < len(seen.chats):
        words.append(visible(title_of(seen.chats[owner - FIRST_CHAT])))
    refs = seen.refs[cell]
    words.append(f"held by {refs}" if refs else "held by nobody")
    return [*words, f"last used {age_words(seen.ages[cell])}"]


@dataclass(frozen=True, slots=True)
class StatsBranch:
    """A branch as it is drawn: nodes that nothing branches off from between are one."""

    nodes: tuple[TreeBranch, ...]
    guides: Guides
    is_new_chat: bool

    @property
    def id(self) -> int:
        """The number of its first node."""
        return self.nodes[0].id

    @property
    def num_blocks(self) -> int:
        """Blocks of the branch alone."""
        return sum(node.num_blocks for node in self.nodes)

    @property
    def num_cached(self) -> int:
        """Blocks of it that can be evicted."""
        return sum(node.cached_blocks for node in self.nodes)

    @property
    def refs(self) -> int:
        """Who holds its first block now."""
        return self.nodes[0].refs

    @property
    def users(self) -> int:
        """Who would need blocks of their own."""
        top = self.nodes[0]
        return max(top.num_chats, top.refs - top.is_pinned, 1)

    @property
    def saved_blocks(self) -> int:
        """Blocks that sharing the branch saves."""
        return (self.users - 1) * self.num_blocks

    @property
    def is_pinned(self) -> bool:
        """Whether a pin holds something of it."""
        return any(node.is_pinned for node in self.nodes)

    def has(self, node_id: int) -> bool:
        """Whether a node is part of the row."""
        return any(node.id == node_id for node in self.nodes)


def branch_rows(tree: Tree) -> list[StatsBranch]:
    """Return the rows of a tree from above to below.

    It comes from another program: what hangs from nothing, or from itself, is left out.
    """
    known: set[int | None] = {None}
    branches: list[TreeBranch] = []
    for branch in tree.branches:
        if branch.parent_id in known and branch.id not in known:
            known.add(branch.id)
            branches.append(branch)
    return [
        StatsBranch(nodes, guides, parent is None or _chats(nodes[0]) != _chats(parent))
        for nodes, guides, parent in laid_out(branches, _is_same)
    ]


def tree_words(tree: Tree, model: ModelStats) -> list[str]:
    """Return how large a tree is, what sharing saves in all of it, and what is not listed of it."""
    size = model.blocks.bytes_per_block
    words = [
        f"{grouped(tree.num_branches)} {'branch' if tree.num_branches == 1 else 'branches'}",
        counted_blocks(tree.num_blocks),
        f"{grouped(tree.depth_blocks)} deep",
        f"sharing saves {counted_blocks(tree.saved_blocks)}, {byte_size(tree.saved_blocks * size)}",
    ]
    unlisted = tree.num_branches - len(tree.branches)
    return [*words, f"{grouped(unlisted)} smaller ones are not listed"] if unlisted > 0 else words


def branch_label(row: StatsBranch, title_of: TitleOf) -> str:
    """Return whose a branch is."""
    top = row.nodes[0]
    if top.num_chats > 1:
        return f"{grouped(top.num_chats)} chats"
    return title_of(top.chat_id) if top.chat_id else ""


def branch_words(row: StatsBranch, model: ModelStats) -> list[str]:
    """Return what is known of a branch: its size and place, who holds it, what it saves."""
    blocks, size = row.num_blocks, model.blocks
    first = row.nodes[0].start_blocks * size.tokens_per_block
    last = first + blocks * size.tokens_per_block - 1
    words = [
        f"{counted_blocks(blocks)}, {byte_size(blocks * size.bytes_per_block)}",
        f"tokens {grouped(first)} to {grouped(last)}",
        f"held by {grouped(row.refs)}" if row.refs else "held by nobody",
        f"{grouped(row.num_cached)} can be evicted",
    ]
    if row.saved_blocks:
        words.append(f"sharing saves {byte_size(row.saved_blocks * size.bytes_per_block)}")
    return words


def _chats(node: TreeBranch) -> tuple[int, str]:
    return node.num_chats, node.chat_id


def _is_same(child: TreeBranch, parent: TreeBranch) -> bool:
    return (_chats(child), child.refs, child.is_pinned) == (
        (_chats(parent), parent.refs, parent.is_pinned)
    )


def _digit(mark: str) -> int:
    return int(mark) if mark.isascii() and mark.isdecimal() else 0


def _filled(marks: bytes, count: int) -> bytes:
    return marks[:count].ljust(count, b"\0")
