"""Sides: the host's memory for the copies of steps that are under way, in turns."""

from __future__ import annotations

from typing import Protocol

import torch

from localpaged.engine.device import DeviceLayer

LEAST_BYTES = 4_096
NUM_SIDES = 2
"""A step is launched while the one before it runs; the one before that has told its tokens."""


class Landing(Protocol):
    """A step that uses a side."""

    def land(self) -> None:
        """Wait until the device has read and written all; nothing if it has."""


class Side:
    """Host memory of one step. Engine thread only.

    Invariant: what lies in here changes only when the step that used it last has landed.
    """

    def __init__(self, device: DeviceLayer) -> None:
        self._device = device
        self._up = device.host_buffer(LEAST_BYTES)
        self._more = device.host_buffer(LEAST_BYTES)
        self._down = device.host_buffer(LEAST_BYTES)
        self.user: Landing | None = None
        self.tag: object = None
        """What the numbers to go up were laid out for by whoever keeps some of them."""

    def up(self, num_bytes: int, *, tag: object = None) -> tuple[torch.Tensor, bool]:
        """Return memory [bytes] uint8 to be uploaded, and whether it is as `tag` left it."""
        is_kept = tag is not None and tag == self.tag and num_bytes <= len(self._up)
        if num_bytes > len(self._up):
            self._up = self._device.host_buffer(_rounded(num_bytes))
        self.tag = tag
        return self._up[:num_bytes], is_kept

    def more(self, num_bytes: int) -> torch.Tensor:
        """Return memory [bytes] uint8 for what is uploaded behind the step's first part."""
        if num_bytes > len(self._more):
            self._more = self._device.host_buffer(_rounded(num_bytes))
        return self._more[:num_bytes]

    def down(self, num_bytes: int) -> torch.Tensor:
        """Return memory [bytes] uint8 for what comes back."""
        if num_bytes > len(self._down):
            self._down = self._device.host_buffer(_rounded(num_bytes))
        return self._down[:num_bytes]


class Everything:
    """All that the device was given: what is waited for where nobody knows when a copy is over."""

    def __init__(self, device: DeviceLayer) -> None:
        self._device = device

    def land(self) -> None:
        """Wait for all that was begun on the device."""
        word = torch.zeros(1, dtype=torch.uint8, device=self._device.torch_device)
        self._device.download(word, self._device.host_buffer(1)).wait()


class Sides:
    """Hands out sides in turns. Engine thread only."""

    def __init__(self, device: DeviceLayer) -> None:
        self.everything = Everything(device)
        self._sides = [Side(device) for _ in range(NUM_SIDES)]
        self._next = 0

    def take(self) -> Side:
        """Return the side of the next step, whose `user` it becomes when all of it is begun.

        Waits only where a step was given up unfinished.
        """
        side = self._sides[self._next]
        self._next = (self._next + 1) % NUM_SIDES
        if side.user is not None:
            side.user.land()
        side.user = self.everything
        return side


def _rounded(num_bytes: int) -> int:
    return 1 << (num_bytes - 1).bit_length()
