"""Arrival: a prefix whose KV comes from outside, block by block from the first one on."""

from __future__ import annotations

from dataclasses import dataclass, field

from localpaged.engine.prefix_tree import BlockKey


@dataclass(slots=True, eq=False)
class Arrival:
    """The prefix `keys` of the chat `user`; `blocks` are those that are here.

    Invariant: it is one user of each of its blocks, all of which are in the prefix tree.
    """

    keys: tuple[BlockKey, ...]
    user: str
    blocks: list[int] = field(default_factory=list)
