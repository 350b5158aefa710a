"""What evicting a branch takes: its own blocks, those of branches below, the chats they are of."""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.engine.inspection import Inspection, TreeNode
from localpaged.tui.figures import grouped
from localpaged.tui.memory.headlines import blocks_and_bytes
from localpaged.tui.memory.tree_rows import TreeRow


@dataclass(frozen=True, slots=True)
class Loss:
    """What evicting the branch `node_id` from its block `offset` on takes, and all below it.

    `below_blocks` of its `blocks` are in other branches than the one that is pointed at. `chats`
    are those that went through any of them.
    """

    node_id: int
    offset: int
    blocks: int
    below_blocks: int
    chats: frozenset[str]


def loss_of(seen: Inspection, row: TreeRow, *, node: TreeNode, offset: int) -> Loss:
    """Return what is lost from a block of a row on. What is held stays, and what it hangs from."""
    inside = {node.id}
    blocks = below = 0
    chats: set[str] = set()
    for other in seen.nodes:
        if other is not node and other.parent_id not in inside:
            continue
        inside.add(other.id)
        count = min(other.num_cached, len(other.blocks) - (offset if other is node else 0))
        if count:
            blocks += count
            below += 0 if row.has(other.id) else count
            chats.update(other.chats)
    return Loss(node.id, offset, blocks, below, frozenset(chats))


def loss_text(loss: Loss, seen: Inspection) -> str:
    """Return what is told before branches below are evicted, too."""
    whole = loss.below_blocks == loss.blocks
    share = "all" if whole else grouped(loss.below_blocks)
    text = f"{blocks_and_bytes(loss.blocks, seen)}, {share} of them in branches below. "
    if num_chats := len(loss.chats):
        text += "A chat loses its" if num_chats == 1 else f"{grouped(num_chats)} chats lose their"
        text += " cache. "
    tokens = loss.blocks * seen.block_size
    return f"{text}To have it back, up to {grouped(tokens)} tokens are computed again."
