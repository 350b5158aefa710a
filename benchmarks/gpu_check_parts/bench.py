"""Bench: what a check works with: the device, its clock, the time that is left, its verdicts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gpu_check_parts.checks import Conditions
from gpu_check_parts.entries import Bar, Skip

if TYPE_CHECKING:
    import torch

    from gpu_check_parts.stopwatch import Stopwatch

T = TypeVar("T")
K = TypeVar("K")

REHEARSED_BYTES = 2**30
"""Memory that a rehearsal pretends to have."""


@dataclass(frozen=True)
class Bench:
    """One check's work place, made in its process; it alone knows whether this is a rehearsal.

    A rehearsal takes the same way in the smallest sizes on the CPU, where Triton interprets.
    """

    conditions: Conditions

    @property
    def is_rehearsal(self) -> bool:
        """Whether nothing is measured."""
        return self.conditions.is_rehearsal

    @cached_property
    def device(self) -> torch.device:
        """Where tensors lie."""
        import torch

        return torch.device("cpu" if self.is_rehearsal else "cuda")

    @cached_property
    def watch(self) -> Stopwatch:
        """What times are taken with."""
        from gpu_check_parts.stopwatch import Stopwatch

        return Stopwatch(self.device)

    def pick(self, real: T, tiny: T) -> T:
        """Return what is meant on a GPU, or in a rehearsal its tiny stand-in."""
        return tiny if self.is_rehearsal else real

    def left_s(self) -> float:
        """Return the seconds until the check is stopped."""
        return self.conditions.deadline_s - time.monotonic()

    def lacks_time(self, what: str, needed_s: float) -> Skip | None:
        """Return why something is left out, where it would run past the check's budget."""
        left_s = self.left_s()
        if self.is_rehearsal or left_s >= needed_s:
            return None
        return Skip(what, f"{max(left_s, 0):.0f} s were left, it may take {needed_s:.0f} s")

    def free_bytes(self) -> int:
        """Return the device's free memory."""
        import torch

        if self.is_rehearsal:
            return REHEARSED_BYTES
        torch.cuda.empty_cache()  # what torch keeps for the next tensors is free as well
        return int(torch.cuda.mem_get_info()[0])

    def lacks_memory(self, what: str, needed_bytes: int) -> Skip | None:
        """Return why something is left out, where it would not fit; an eighth stays free."""
        free = self.free_bytes()
        if needed_bytes <= free * 7 // 8:
            return None
        return Skip(
            what, f"it takes {needed_bytes / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"
        )

    def mine(self, everything: dict[K, T]) -> Iterator[tuple[K, T]]:
        """Return this process's part of what several share."""
        for place, item in enumerate(everything.items()):
            if place % self.conditions.shards == self.conditions.shard:
                yield item

    def at_least(self, name: str, got: float, wanted: float, unit: str, *, note: str = "") -> Bar:
        """Judge a number that must not be less."""
        return Bar(name, got, wanted, unit, None if self.is_rehearsal else got >= wanted, note)

    def at_most(self, name: str, got: float, wanted: float, unit: str, *, note: str = "") -> Bar:
        """Judge a number that must be less."""
        return Bar(name, got, wanted, unit, None if self.is_rehearsal else got < wanted, note)
