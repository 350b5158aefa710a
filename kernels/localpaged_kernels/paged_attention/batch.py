"""AttentionBatch: which query rows belong to which sequence, and where its K and V lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class AttentionBatch:
    """One step's attention, the same for all layers.

    Row s has `query_lens[s]` queries, its last ones of `seq_lens[s]` tokens with KV, and the blocks
    `tables[s]`. Rows with one query come first; there are `num_decodes` of them.
    `block_tables` [num_decodes, widest] int64 are their tables, padded with a block that is
    finite everywhere; slots behind a sequence's end must be finite, too: they are masked, not
    skipped. `runs[s]` is the row's table as a range when its blocks lie side by side. `shared`
    keeps what an implementation computes once for all layers.
    """

    tables: tuple[torch.Tensor, ...]  # each [blocks of the row] int64
    runs: tuple[range | None, ...]
    block_tables: torch.Tensor
    query_lens: tuple[int, ...]
    seq_lens: tuple[int, ...]
    num_decodes: int
    block_size: int
    shared: dict[Any, Any] = field(default_factory=dict, compare=False)

    @property
    def num_queries(self) -> int:
        """Query rows of the whole batch."""
        return sum(self.query_lens)
