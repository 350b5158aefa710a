"""What lies in one model's KV memory, block by block, as frozen values that may cross threads.

One byte a block for each view of the map, so that a pool of 32,768 blocks is looked at in a few
milliseconds and drawn without an object for each block.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from localpaged.engine.params import BLOCK_SIZE_TOKENS, RequestId

NO_OWNER, SEVERAL_OWNERS, OTHER_OWNER, FIRST_CHAT = 0, 1, 2, 3
"""Bytes of `owners`: nobody, more than one chat, one beyond `MAX_CHATS`, `chats[byte - 3]`."""
MAX_CHATS = 256 - FIRST_CHAT
MAX_REFS = 255
AGE_BOUNDS_S = (1, 5, 15, 60, 300, 900, 3_600, 14_400)
"""Byte i of `ages` means: last used less than bound i ago; one more byte for everything older."""


class BlockState(IntEnum):
    """What a block is at the moment."""

    FREE = 0
    HELD = 1
    """A sequence that runs uses it."""
    CACHED = 2
    """Kept for reuse; can be evicted."""
    PINNED = 3
    """Kept because somebody said so, whether a sequence uses it or not."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A branch of the prefix tree: the KV of tokens that follow those of `parent_id`.

    `id` is never used again for another branch. `start_blocks` lie before it. `refs` counts who
    holds its first block: sequences and pins. `chats` are those that had anything in it or below
    since it is there. The last `num_cached` of its blocks are held by nobody.
    """

    id: int
    parent_id: int | None
    start_blocks: int
    blocks: tuple[int, ...]
    refs: int
    chats: tuple[str, ...]
    first_tokens: tuple[int, ...]
    pins: tuple[str, ...]
    num_cached: int
    age: int

    @property
    def users(self) -> int:
        """Who would need blocks of their own: chats, or the sequences that hold it now."""
        return max(len(self.chats), self.refs - len(self.pins), 1)

    @property
    def saved_blocks(self) -> int:
        """Blocks that would be needed besides if nothing were shared."""
        return (self.users - 1) * len(self.blocks)


@dataclass(frozen=True, slots=True)
class BlockTable:
    """A running sequence's blocks in the order of its tokens, and how many of them others use."""

    request_id: RequestId
    chat_id: str
    num_tokens: int
    blocks: tuple[int, ...]
    shared_blocks: int

    @property
    def own_blocks(self) -> int:
        """Blocks that nobody else uses."""
        return len(self.blocks) - self.shared_blocks


@dataclass(frozen=True, slots=True)
class PinView:
    """A pin: the full blocks it is for, and those that exist and are held already."""

    key: str
    num_blocks: int
    num_held: int


@dataclass(frozen=True, slots=True)
class BlockTokens:
    """The tokens whose KV is in a block; `position` is the first one's place in its sequence."""

    block: int
    position: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A pool between two steps. Byte i of the maps tells of the block with the number i.

    Blocks are numbered from 0; the two that pad are left out. `nodes` come from above to below,
    each branch whole before its neighbour. What is in host memory is only counted. `going` is 1
    for what would be evicted if one more full context were needed.
    """

    model_name: str = ""
    block_size: int = BLOCK_SIZE_TOKENS
    block_bytes: int = 0
    states: bytes = b""
    refs: bytes = b""
    ages: bytes = b""
    owners: bytes = b""
    going: bytes = b""
    chats: tuple[str, ...] = ()
    max_blocks: int = 0
    host_used_blocks: int = 0
    nodes: tuple[TreeNode, ...] = ()
    tables: tuple[BlockTable, ...] = ()
    pins: tuple[PinView, ...] = ()

    @property
    def num_blocks(self) -> int:
        """Blocks there are; more may come, up to `max_blocks`."""
        return len(self.states)

    @property
    def saved_blocks(self) -> int:
        """Blocks that sharing saves, in all branches."""
        return sum(node.saved_blocks for node in self.nodes)

    def count(self, state: BlockState) -> int:
        """Return how many blocks are in a state."""
        return self.states.count(state)

    def node(self, node_id: int) -> TreeNode | None:
        """Return a branch by its id; None when it is gone."""
        return next((node for node in self.nodes if node.id == node_id), None)

    def place(self, block: int) -> tuple[TreeNode, int] | None:
        """Return the branch that a block is in and its place there; None outside of the tree."""
        for node in self.nodes:
            if block in node.blocks:
                return node, node.blocks.index(block)
        return None

    def holders(self, block: int) -> tuple[BlockTable, ...]:
        """Return the running sequences that use a block."""
        return tuple(table for table in self.tables if block in table.blocks)
