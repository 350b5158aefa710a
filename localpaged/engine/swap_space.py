"""SwapSpace: host memory that keeps blocks which the pool gave up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from localpaged.engine.operators import Operators
from localpaged.engine.step_plan import BlockMove

PIECE_BYTES = 2**25
"""What is gathered at a time on its way: enough for the bus, and little beside a pool."""

PINNED_SLAB_BYTES = 2**27
"""torch pins powers of two: a full slab wastes less than one slot, the last one less than half."""


class SwapSpace:
    """Slots for `count` blocks of a pool's `parts` [layers, blocks, ...]. Engine thread only.

    A slot is one run of bytes, so slots side by side cross the bus in one copy a direction. For a
    pool on a GPU the memory is pinned: copies are put on the stream, before whatever the step
    computes, and nobody waits for them. Slots are only ever touched in the stream's order. Pinned
    memory is made in slabs of `slab_bytes`, when the first of a slab's slots is used. On the CPU
    all is there at once, and what was never written takes addresses, not memory.
    """

    def __init__(
        self,
        parts: Sequence[torch.Tensor],
        *,
        count: int,
        operators: Operators,
        slab_bytes: int | None = None,
    ) -> None:
        self._operators = operators
        self._device = parts[0].device
        self._is_pinned = self._device.type == "cuda"
        self._kinds = [((part.shape[0], *part.shape[2:]), part.dtype) for part in parts]
        slot_bytes = max(math.prod(shape) * dtype.itemsize for shape, dtype in self._kinds)
        if slab_bytes is None and self._is_pinned:
            slab_bytes = PINNED_SLAB_BYTES
        self._slab_slots = max(count if slab_bytes is None else slab_bytes // slot_bytes, 1)
        self._piece_blocks = max(PIECE_BYTES // slot_bytes, 1)
        self._count = count
        self._slabs: dict[int, list[torch.Tensor]] = {}

    def swap_out(self, parts: Sequence[torch.Tensor], moves: Sequence[BlockMove]) -> None:
        """Begin to copy blocks of the pool into slots."""
        for some in self._portions(moves):
            blocks = device_ids([move.block for move in some], self._device)
            for number, part in enumerate(parts):
                piece = self._operators.gather_blocks(part, blocks)
                for place, run in self._runs(some):
                    here = self._memory(run, number)
                    here.copy_(piece[place : place + len(run)], non_blocking=True)

    def swap_in(self, parts: Sequence[torch.Tensor], moves: Sequence[BlockMove]) -> None:
        """Begin to copy slots into blocks of the pool."""
        for some in self._portions(moves):
            blocks = device_ids([move.block for move in some], self._device)
            for number, part in enumerate(parts):
                shape, dtype = self._kinds[number]
                piece = torch.empty((len(some), *shape), dtype=dtype, device=self._device)
                for place, run in self._runs(some):
                    here = self._memory(run, number)
                    piece[place : place + len(run)].copy_(here, non_blocking=True)
                self._operators.scatter_blocks(part, blocks, piece)

    def _portions(self, moves: Sequence[BlockMove]) -> Iterator[Sequence[BlockMove]]:
        """Cut moves, in the order of their slots, into pieces of a bounded size."""
        ordered = sorted(moves, key=lambda move: move.slot)
        for first in range(0, len(ordered), self._piece_blocks):
            yield ordered[first : first + self._piece_blocks]

    def _runs(self, moves: Sequence[BlockMove]) -> Iterator[tuple[int, range]]:
        """Yield slots that lie side by side, with the place of the first among `moves`."""
        first = 0
        for place in range(1, len(moves) + 1):
            is_end = place == len(moves)
            if (
                is_end
                or moves[place].slot != moves[place - 1].slot + 1
                or moves[place].slot % self._slab_slots == 0
            ):
                slot = moves[first].slot
                yield first, range(slot, slot + place - first)
                first = place

    def _memory(self, run: range, number: int) -> torch.Tensor:
        """Return a part's slots [slots, layers, ...] of a run, which lies in one slab."""
        slab, start = divmod(run.start, self._slab_slots)
        if slab not in self._slabs:
            slots = min(self._slab_slots, self._count - slab * self._slab_slots)
            self._slabs[slab] = [self._new((slots, *shape), dtype) for shape, dtype in self._kinds]
        return self._slabs[slab][number][start : start + len(run)]

    def _new(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if self._is_pinned:
            return torch.empty(shape, dtype=dtype, pin_memory=True)
        return lazily_zeroed(shape, dtype)


def device_ids(ids: Sequence[int], device: torch.device) -> torch.Tensor:
    """Return int64 numbers on a device without waiting for what it does meanwhile."""
    if device.type != "cuda":
        return torch.tensor(ids, dtype=torch.int64, device=device)
    # torch gives the pinned memory to nobody else before the copy has read it.
    pinned = torch.tensor(ids, dtype=torch.int64, pin_memory=True)
    return pinned.to(device, non_blocking=True)


def lazily_zeroed(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return zeros on the CPU whose pages the system only provides when they are first written.

    torch.zeros would write, and so take, all of it at once.
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    if not num_bytes:
        return torch.zeros(shape, dtype=dtype)
    return torch.from_numpy(np.zeros(num_bytes, dtype=np.uint8)).view(dtype).view(shape)
