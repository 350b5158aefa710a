"""Room: the memory there is where models are computed, and beside it."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from localpaged.devices import Device
from localpaged.memory_plan import MemoryPlan


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of a device and of the host; for the processor both are the same."""

    device: Device
    total_bytes: int
    free_bytes: int
    host_total_bytes: int
    host_free_bytes: int

    def holds(self, plan: MemoryPlan) -> bool:
        """Whether all of a plan is free."""
        return plan.fits(free_bytes=self.free_bytes, host_free_bytes=self.host_free_bytes)

    def of_processor(self) -> Room:
        """Return what there would be if the processor computed."""
        return Room(
            Device(),
            self.host_total_bytes,
            self.host_free_bytes,
            self.host_total_bytes,
            self.host_free_bytes,
        )


def room_on(device: Device | None = None, *, free_bytes: int | None = None) -> Room:
    """Return the room on a device, the processor unless told; `free_bytes` are a card's now."""
    memory = psutil.virtual_memory()
    if device is None or not device.is_cuda:
        total, free = memory.total, memory.available
        return Room(device or Device(), total, free, total, free)
    free = device.free_bytes if free_bytes is None else free_bytes
    return Room(device, device.total_bytes, free, memory.total, memory.available)
