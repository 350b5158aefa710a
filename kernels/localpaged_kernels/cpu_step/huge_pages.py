"""Memory in huge pages: reading weights in pages of 4 KiB takes half as long again."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

ALIGNMENT_BYTES = 64
"""A cache line, and a vector."""


class Room:
    """Zeroed memory that arrays are cut from, one after the other, each at a cache line."""

    def __init__(self, num_bytes: int) -> None:
        """Reserve memory; pages are taken when they are written."""
        memory = mmap.mmap(-1, max(num_bytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        self._bytes = np.frombuffer(memory, np.uint8)
        self._used = 0

    def take(self, count: int, dtype: Any) -> np.ndarray:
        """Return an array of zeros; the room must have been made large enough."""
        num_bytes = room_for(count, dtype)
        assert self._used + num_bytes <= len(self._bytes), "a room is made for what it holds"
        size = count * np.dtype(dtype).itemsize
        array: np.ndarray = self._bytes[self._used : self._used + size].view(dtype)
        self._used += num_bytes
        return array


def room_for(count: int, dtype: Any) -> int:
    """Return the bytes that an array takes."""
    num_bytes: int = count * np.dtype(dtype).itemsize
    return -(-num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
