"""KVStorage: the tensors behind the block ids of one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS, READ_PAD_BLOCK, WRITE_PAD_BLOCK
from localpaged.engine.operators import Operators, bits_of, torch_operators
from localpaged.engine.step_plan import BlockCopy, BlockMove
from localpaged.engine.swap_space import SwapSpace, device_ids, lazily_zeroed
from localpaged.kv_files.identity import Part

SCALE_DTYPE = torch.float32
FILE_DTYPES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int8: "I8",
    torch.float8_e4m3fn: "F8_E4M3",
}
LOUDEST_FP8 = 448


@dataclass(frozen=True, slots=True)
class LayerKV:
    """One layer's cache: numbers [blocks, block_size, 2, kv_heads, head_dim].

    For 8-bit numbers, `scales` [blocks, block_size, 2, kv_heads]; what is meant is the product.
    """

    numbers: torch.Tensor
    scales: torch.Tensor | None


class KVStorage:
    """K and V of every layer, addressed by block and slot. Engine thread only.

    Every element is finite from the start, and what a sequence reads behind its end is cleared when
    it gets the block, so masked reads of unwritten slots are harmless.
    `num_blocks` usable blocks may be addressed; more after `grow`. On the CPU it can be made with
    all the blocks a pool may grow to: what was never written takes addresses, not memory. A GPU
    has no such memory, and `grow` moves everything: the addresses of `layers` change, and what was
    recorded with the old ones must be recorded anew. Work on a GPU is put on the current stream.
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
        device: torch.device | None = None,
        operators: Operators | None = None,
    ) -> None:
        self._operators = operators or torch_operators()
        self._device = device or torch.device("cpu")
        self.block_size = block_size
        self.num_blocks = num_blocks
        shapes = _shapes(config, num_blocks + NUM_RESERVED_BLOCKS, block_size, dtype)
        self._parts = [_zeros(shape, kind, self._device) for shape, kind in shapes]
        self._swap_space = SwapSpace(self._parts, count=host_blocks, operators=self._operators)
        self.layers = _layers_of(self._parts)

    def grow(self, num_blocks: int) -> None:
        """Have room for `num_blocks` usable blocks; what is written stays."""
        if num_blocks <= self.num_blocks:
            return
        # Memory that is made in inference mode could not be written outside of it, as files do.
        with torch.inference_mode(mode=False):
            self._parts = [_grown(part, num_blocks + NUM_RESERVED_BLOCKS) for part in self._parts]
        self.num_blocks = num_blocks
        self.layers = _layers_of(self._parts)

    def apply(self, copies: tuple[BlockCopy, ...]) -> None:
        """Copy blocks in all layers; every source is read before any target is written."""
        if copies:
            sources = self._ids([copy.source for copy in copies])
            targets = self._ids([copy.target for copy in copies])
            read = {copy.source for copy in copies}
            is_apart = read.isdisjoint(copy.target for copy in copies)
            for part in self._parts:
                self._operators.copy_blocks(part, sources, targets, is_apart=is_apart)

    def swap_out(self, moves: Sequence[BlockMove]) -> None:
        """Copy blocks of the pool into slots of host memory."""
        self._swap_space.swap_out(self._parts, moves)

    def swap_in(self, moves: Sequence[BlockMove]) -> None:
        """Copy slots of host memory into blocks of the pool."""
        self._swap_space.swap_in(self._parts, moves)

    def warm_up(self) -> None:
        """Make each kind of move once, of and to the blocks that nobody has."""
        self.apply((BlockCopy(READ_PAD_BLOCK, WRITE_PAD_BLOCK),))
        self.apply((BlockCopy(WRITE_PAD_BLOCK, WRITE_PAD_BLOCK),))
        ids = self._ids([WRITE_PAD_BLOCK])
        for part in self._parts:
            piece = self._operators.gather_blocks(part, ids)
            self._operators.scatter_blocks(part, ids, piece)

    @property
    def forms(self) -> tuple[Part, ...]:
        """What belongs to a block, as a file tells it."""
        names = ("numbers", "scales")
        return tuple(
            Part(name, FILE_DTYPES[part.dtype], part.itemsize, part.shape[0], tuple(part.shape[2:]))
            for name, part in zip(names, self._parts, strict=False)
        )

    def read_blocks(self, blocks: Sequence[int]) -> tuple[memoryview, ...]:
        """Return copies of what belongs to blocks, [layers, blocks, ...] each, as bytes.

        Waits for a GPU to have done what it was given before.
        """
        indexes = self._ids(blocks)
        copies = (bits_of(part).index_select(1, indexes).cpu() for part in self._parts)
        return tuple(memoryview(copy.flatten().view(torch.uint8).numpy()) for copy in copies)

    def write_blocks(
        self, blocks: Sequence[int], parts: Sequence[memoryview], *, first: int, pool_blocks: int
    ) -> None:
        """Fill blocks from bytes as `read_blocks` returns them, from their block `first` on.

        `pool_blocks` are those that may be addressed.
        """
        self.grow(pool_blocks)
        indexes = self._ids(blocks)
        for part, content in zip(self._parts, parts, strict=True):
            target = bits_of(part)
            source = torch.frombuffer(content, dtype=target.dtype)
            source = source.view(part.shape[0], -1, *part.shape[2:])
            source = source[:, first : first + len(blocks)].to(part.device)
            target.index_copy_(1, indexes, source)

    def clear(self, slots: Sequence[int]) -> None:
        """Write zeros into slots, in all layers."""
        if slots:
            indexes = self._ids(slots)
            for part in self._parts:
                bits_of(part).flatten(1, 2).index_fill_(1, indexes, 0)

    def poison(self, value: float = 1e4) -> None:
        """Fill everything but the read padding with a finite, loud value; for tests."""
        for part in self._parts:
            if part.dtype.itemsize > 1:
                part.fill_(value)
            else:
                part.fill_(LOUDEST_FP8 if part.dtype.is_floating_point else 127)
            part[:, READ_PAD_BLOCK].zero_()

    def _ids(self, ids: Sequence[int]) -> torch.Tensor:
        return device_ids(ids, self._device)


def _shapes(
    config: DecoderConfig, count: int, block_size: int, dtype: torch.dtype
) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Return what belongs to blocks, [layers, blocks, ...] each: it is moved as one."""
    shape = (config.num_layers, count, block_size, 2, config.num_kv_heads)
    numbers = ((*shape, config.head_dim), dtype)
    return [numbers, (shape, SCALE_DTYPE)] if dtype.itemsize == 1 else [numbers]


def _layers_of(parts: list[torch.Tensor]) -> tuple[LayerKV, ...]:
    return tuple(
        LayerKV(numbers, scales)
        for numbers, scales in zip(parts[0], parts[1] if parts[1:] else repeat(None), strict=False)
    )


def _grown(part: torch.Tensor, count: int) -> torch.Tensor:
    grown = _zeros((part.shape[0], count, *part.shape[2:]), part.dtype, part.device)
    grown[:, : part.shape[1]] = part
    return grown


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if device.type == "cpu":
        return lazily_zeroed(shape, dtype)
    return torch.zeros(shape, dtype=dtype, device=device)


def block_bytes(config: DecoderConfig, dtype: torch.dtype, *, block_size: int) -> int:
    """Return the bytes of one block's K and V in all layers, scales included."""
    scale_bytes = SCALE_DTYPE.itemsize if dtype.itemsize == 1 else 0
    return config.kv_bytes_per_token(dtype.itemsize, scale_bytes=scale_bytes) * block_size
