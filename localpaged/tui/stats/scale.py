"""The scale of a curve: a round number above the largest value, which does not jump about."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, log10

_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def ceiling(values: Iterable[float | None], *, least: float = 1.0) -> float:
    """Return the smallest round number that no value is above, and at least `least`."""
    largest = max((value for value in values if value is not None), default=0.0)
    if largest <= least:
        return least
    size = 10.0 ** floor(log10(largest))
    return next((step * size for step in _STEPS if step * size >= largest), 10.0 * size)
