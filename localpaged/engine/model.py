"""PagedModel: what the runner needs of a model. The native decoder is one; fakes are short."""

from __future__ import annotations

from typing import Protocol

import torch

from localpaged.engine.batch import Batch
from localpaged.engine.kv_storage import KVStorage


class PagedModel(Protocol):
    """A decoder whose KV lives in a KVStorage. Engine thread only."""

    def forward(self, batch: Batch, kv: KVStorage) -> torch.Tensor:
        """Write the batch's K and V into its slots, attend over the block tables.

        Returns the hidden states [tokens, hidden] before the head. Positions are absolute, so a
        row may begin anywhere behind KV that exists.
        """

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return float32 logits [rows, vocab] of hidden states [rows, hidden]."""
