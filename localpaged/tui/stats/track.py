"""What was measured over time: one number a tick, looked at as the columns of a curve."""

from __future__ import annotations

from collections.abc import Sequence

MAX_TICKS = 4_096
"""More than an hour of one number a second."""


class Track:
    """The numbers of the latest ticks. UI thread only.

    Invariant: nothing is older than MAX_TICKS before the newest tick. A tick without a number, or
    with None, is one of which nothing is known.
    """

    __slots__ = ("_latest", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[int, float] = {}
        self._latest = -1

    def merge(self, series: Sequence[float | None], *, latest: int) -> None:
        """Note a series of one number a tick, the last of them at the tick `latest`.

        What was known of the same ticks is replaced: the newest one may not have been whole.
        """
        first = latest - len(series) + 1
        for tick, number in enumerate(series, start=first):
            if number is not None:
                self._numbers[tick] = number
            else:
                self._numbers.pop(tick, None)
        self._latest = max(self._latest, latest)
        if len(self._numbers) > MAX_TICKS:
            oldest = self._latest - MAX_TICKS
            self._numbers = {t: n for t, n in self._numbers.items() if t > oldest}

    def columns(self, count: int, *, each: int, now: int) -> list[float | None]:
        """Return `count` columns of `each` ticks, the last of them with the tick `now` in it.

        A column has the largest number of its ticks, so that no peak is lost. Columns begin at
        multiples of their length, so a curve moves along and does not change its shape.
        """
        first = now // each - count + 1
        return [self._largest(column * each, each) for column in range(first, first + count)]

    def _largest(self, start: int, each: int) -> float | None:
        numbers = self._numbers
        known = [numbers[tick] for tick in range(start, start + each) if tick in numbers]
        return max(known, default=None)
