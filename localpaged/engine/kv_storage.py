"""KVStorage: the tensors behind the block ids of one model."""

from __future__ import annotations

import numpy as np
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS, READ_PAD_BLOCK
from localpaged.engine.step_plan import BlockCopy
from localpaged_kernels import copy_blocks


class KVStorage:
    """K and V of every layer, addressed by block and slot. Engine thread only.

    `layers[i]` is [blocks, block_size, 2, kv_heads, head_dim]. Every element is finite from the
    start, so masked reads of unwritten slots are harmless.
    """

    def __init__(
        self, config: DecoderConfig, *, num_blocks: int, block_size: int, dtype: torch.dtype
    ) -> None:
        shape = (
            config.num_layers,
            num_blocks + NUM_RESERVED_BLOCKS,
            block_size,
            2,
            config.num_kv_heads,
            config.head_dim,
        )
        self.block_size = block_size
        self._all = _lazily_zeroed(shape, dtype)
        self.layers = tuple(self._all)

    def apply(self, copies: tuple[BlockCopy, ...]) -> None:
        """Copy blocks in all layers; every source is read before any target is written."""
        if copies:
            sources = torch.tensor([copy.source for copy in copies])
            targets = torch.tensor([copy.target for copy in copies])
            copy_blocks(self._all, sources, targets)

    def poison(self, value: float = 1e4) -> None:
        """Fill everything but the read padding with a finite, loud value; for tests."""
        self._all.fill_(value)
        self._all[:, READ_PAD_BLOCK].zero_()


def _lazily_zeroed(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return zeros whose pages the system only provides when they are first written.

    torch.zeros would write, and so take, the whole pool at once.
    """
    num_bytes = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(num_bytes, dtype=np.uint8)).view(dtype).view(shape)
