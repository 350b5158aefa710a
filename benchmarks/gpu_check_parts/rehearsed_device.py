"""The device layer of a rehearsal: the CPU in place of a card, and graphs that are done again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

FREE_BYTES = 2**30


class RehearsedDevice:
    """A DeviceLayer on which nothing is ever under way. One thread.

    A graph is the work itself: it reads and writes the same memory when it is done again.
    """

    @property
    def torch_device(self) -> torch.device:
        """See DeviceLayer."""
        return torch.device("cpu")

    @property
    def compiles(self) -> bool:
        """See DeviceLayer."""
        return False

    def host_buffer(self, num_bytes: int) -> torch.Tensor:
        """See DeviceLayer."""
        return torch.zeros(num_bytes, dtype=torch.uint8)

    def upload(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """See DeviceLayer."""
        target.copy_(source)

    def download(self, source: torch.Tensor, target: torch.Tensor) -> _Here:
        """See DeviceLayer."""
        target.copy_(source)
        return _Here(target)

    def capture(self, work: Callable[[], None]) -> _Again:
        """See DeviceLayer."""
        work()
        return _Again(work)

    def step(self) -> AbstractContextManager[object]:
        """See DeviceLayer."""
        return nullcontext()

    def free_bytes(self) -> int:
        """See DeviceLayer."""
        return FREE_BYTES


class _Here:
    def __init__(self, target: torch.Tensor) -> None:
        self._target = target

    def wait(self) -> torch.Tensor:
        return self._target


class _Again:
    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def replay(self) -> None:
        self._work()
