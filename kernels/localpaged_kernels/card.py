"""Card: what launches need to know of the GPU they run on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

FP8_CAPABILITY = (8, 9)
"""From here on the processor itself turns fp8 (e4m3) into wider numbers."""

SHARED_BYTES = {(8, 0): 167_936, (9, 0): 233_472, (10, 0): 233_472, (10, 3): 233_472}
"""Shared memory of a processor in data centres' cards, which have more of it than others."""

USUAL_SHARED_BYTES = 102_400


@dataclass(frozen=True, slots=True)
class Card:
    """Compute capability, such as (8, 6), and the number of its multiprocessors."""

    capability: tuple[int, int]
    num_processors: int

    @property
    def has_fp8(self) -> bool:
        """Whether fp8 numbers are loaded as such; else their bits are taken apart."""
        return self.capability >= FP8_CAPABILITY

    @property
    def shared_bytes(self) -> int:
        """Shared memory of one processor, for all programs that run on it at a time."""
        return SHARED_BYTES.get(self.capability, USUAL_SHARED_BYTES)

    @property
    def has_fast_memory(self) -> bool:
        """Whether a processor's share of the bandwidth is that of a data centre's card."""
        return self.capability in SHARED_BYTES


@cache
def card_of(device: torch.device) -> Card:
    """Return the card behind a device; for the CPU, on which Triton interprets, a small one."""
    if device.type == "cpu":
        return Card((8, 0), 4)
    import torch  # the package is imported where torch is not

    properties = torch.cuda.get_device_properties(device)
    return Card((properties.major, properties.minor), properties.multi_processor_count)
