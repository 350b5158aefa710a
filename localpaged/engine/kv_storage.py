"""KVStorage: the tensors behind the block ids of one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS, READ_PAD_BLOCK
from localpaged.engine.operators import Operators, torch_operators
from localpaged.engine.step_plan import BlockCopy, BlockMove
from localpaged.kv_files.identity import Part

SCALE_DTYPE = torch.float32
FILE_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int8: "I8"}


@dataclass(frozen=True, slots=True)
class LayerKV:
    """One layer's cache: numbers [blocks, block_size, 2, kv_heads, head_dim].

    For int8 numbers, `scales` [blocks, block_size, 2, kv_heads]; what is meant is the product.
    """

    numbers: torch.Tensor
    scales: torch.Tensor | None


class KVStorage:
    """K and V of every layer, addressed by block and slot. Engine thread only.

    Every element is finite from the start, and what a sequence reads behind its end is cleared when
    it gets the block, so masked reads of unwritten slots are harmless.
    `num_blocks` usable blocks may be addressed; more after `grow`. On the CPU it can be made with
    all the blocks a pool may grow to: what was never written takes addresses, not memory.
    Beside the pool, `host_blocks` slots keep blocks that it gave up.
    """

    def __init__(
        self,
        config: DecoderConfig,
        *,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        host_blocks: int = 0,
        operators: Operators | None = None,
    ) -> None:
        self._operators = operators or torch_operators()
        self.block_size = block_size
        self.num_blocks = num_blocks
        self._parts = _make_parts(config, num_blocks + NUM_RESERVED_BLOCKS, block_size, dtype)
        self._host_parts = _make_parts(config, host_blocks, block_size, dtype)
        self.layers = _layers_of(self._parts)

    def grow(self, num_blocks: int) -> None:
        """Have room for `num_blocks` usable blocks; what is written stays."""
        if num_blocks <= self.num_blocks:
            return
        self.num_blocks = num_blocks
        self._parts = [_grown(part, num_blocks + NUM_RESERVED_BLOCKS) for part in self._parts]
        self.layers = _layers_of(self._parts)

    def apply(self, copies: tuple[BlockCopy, ...]) -> None:
        """Copy blocks in all layers; every source is read before any target is written."""
        if copies:
            sources = torch.tensor([copy.source for copy in copies])
            targets = torch.tensor([copy.target for copy in copies])
            for part in self._parts:
                self._operators.copy_blocks(part, sources, targets)

    def swap_out(self, moves: Sequence[BlockMove]) -> None:
        """Copy blocks of the pool into slots of host memory, all in one go."""
        if moves:
            blocks = torch.tensor([move.block for move in moves])
            slots = torch.tensor([move.slot for move in moves])
            for part, host in zip(self._parts, self._host_parts, strict=True):
                host.index_copy_(1, slots, part.index_select(1, blocks))

    def swap_in(self, moves: Sequence[BlockMove]) -> None:
        """Copy slots of host memory into blocks of the pool, all in one go."""
        if moves:
            blocks = torch.tensor([move.block for move in moves])
            slots = torch.tensor([move.slot for move in moves])
            for part, host in zip(self._parts, self._host_parts, strict=True):
                part.index_copy_(1, blocks, host.index_select(1, slots))

    @property
    def forms(self) -> tuple[Part, ...]:
        """What belongs to a block, as a file tells it."""
        names = ("numbers", "scales")
        return tuple(
            Part(name, FILE_DTYPES[part.dtype], part.itemsize, part.shape[0], tuple(part.shape[2:]))
            for name, part in zip(names, self._parts, strict=False)
        )

    def read_blocks(self, blocks: Sequence[int]) -> tuple[memoryview, ...]:
        """Return copies of what belongs to blocks, [layers, blocks, ...] each, as bytes."""
        indexes = torch.tensor(blocks)
        copies = (part.index_select(1, indexes).cpu() for part in self._parts)
        return tuple(memoryview(copy.flatten().view(torch.uint8).numpy()) for copy in copies)

    def write_blocks(
        self, blocks: Sequence[int], parts: Sequence[memoryview], *, first: int, pool_blocks: int
    ) -> None:
        """Fill blocks from bytes as `read_blocks` returns them, from their block `first` on.

        `pool_blocks` are those that may be addressed.
        """
        self.grow(pool_blocks)
        indexes = torch.tensor(blocks)
        for part, content in zip(self._parts, parts, strict=True):
            source = torch.frombuffer(content, dtype=part.dtype)
            source = source.view(part.shape[0], -1, *part.shape[2:])
            source = source[:, first : first + len(blocks)].to(part.device)
            part.index_copy_(1, indexes, source)

    def clear(self, slots: Sequence[int]) -> None:
        """Write zeros into slots, in all layers."""
        if slots:
            indexes = torch.tensor(slots)
            for part in self._parts:
                part.flatten(1, 2).index_fill_(1, indexes, 0)

    def poison(self, value: float = 1e4) -> None:
        """Fill everything but the read padding with a finite, loud value; for tests."""
        for part in self._parts:
            part.fill_(value if part.dtype.is_floating_point else 127)
            part[:, READ_PAD_BLOCK].zero_()


def _make_parts(
    config: DecoderConfig, count: int, block_size: int, dtype: torch.dtype
) -> list[torch.Tensor]:
    """Return all that belongs to a block, [layers, blocks, ...] each: it is moved as one."""
    shape = (config.num_layers, count, block_size, 2, config.num_kv_heads)
    parts = [_lazily_zeroed((*shape, config.head_dim), dtype)]
    if not dtype.is_floating_point:
        parts.append(_lazily_zeroed(shape, SCALE_DTYPE))
    return parts


def _layers_of(parts: list[torch.Tensor]) -> tuple[LayerKV, ...]:
    return tuple(
        LayerKV(numbers, scales)
        for numbers, scales in zip(parts[0], parts[1] if parts[1:] else repeat(None), strict=False)
    )


def _grown(part: torch.Tensor, count: int) -> torch.Tensor:
    grown = _lazily_zeroed((part.shape[0], count, *part.shape[2:]), part.dtype)
    grown[:, : part.shape[1]] = part
    return grown


def block_bytes(config: DecoderConfig, dtype: torch.dtype, *, block_size: int) -> int:
    """Return the bytes of one block's K and V in all layers, scales included."""
    scale_bytes = 0 if dtype.is_floating_point else SCALE_DTYPE.itemsize
    return config.kv_bytes_per_token(dtype.itemsize, scale_bytes=scale_bytes) * block_size


def _lazily_zeroed(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return zeros whose pages the system only provides when they are first written.

    torch.zeros would write, and so take, the whole pool at once.
    """
    num_bytes = int(np.prod(shape)) * dtype.itemsize
    if not num_bytes:
        return torch.zeros(shape, dtype=dtype)
    return torch.from_numpy(np.zeros(num_bytes, dtype=np.uint8)).view(dtype).view(shape)
