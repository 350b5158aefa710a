"""Times that are measured again and again: the latest ones are kept, percentiles made of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

TTFT_WINDOW = 512
"""First tokens that percentiles are made of."""
INTER_TOKEN_WINDOW = 2_048
"""Intervals between tokens that percentiles are made of."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds since an answer's last token or, when `is_first`, since its request came."""

    seconds: float
    is_first: bool


class LatencyWindow:
    """The latest `size` measurements. Engine thread only; what `samples` returns may cross.

    Invariant: never more than 8 bytes for each of `size` measurements.
    """

    def __init__(self, size: int) -> None:
        assert size > 0
        self._size = size
        self._seconds = array("d")
        self._next = 0

    def add(self, seconds: float, *, count: int = 1) -> None:
        """Take a measurement that stands for `count` equal ones."""
        for _ in range(count):
            if len(self._seconds) < self._size:
                self._seconds.append(seconds)
            else:
                self._seconds[self._next] = seconds
            self._next = (self._next + 1) % self._size

    def samples(self) -> bytes:
        """Return what is kept, in no order, packed: `percentiles` reads it."""
        return self._seconds.tobytes()


def num_samples(samples: bytes) -> int:
    """Return how many measurements there are in what `LatencyWindow.samples` returned."""
    return len(samples) // array("d").itemsize


def percentiles(samples: bytes, percents: Sequence[float]) -> list[float] | None:
    """Return seconds that `percents` of the measurements do not exceed; None without any.

    Between two measurements it is interpolated, as numpy does.
    """
    seconds = array("d")
    seconds.frombytes(samples)
    ordered = sorted(seconds)
    if not ordered:
        return None
    found = []
    for percent in percents:
        place = (len(ordered) - 1) * percent / 100
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        found.append(ordered[below] + (ordered[above] - ordered[below]) * (place - below))
    return found
