"""Pins: prefixes that are not evicted, because somebody said so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from localpaged.engine.prefix_tree import BlockKey


@dataclass(slots=True)
class Pin:
    """The full blocks of a prefix; `blocks` are those that exist so far, from the first one on."""

    keys: tuple[BlockKey, ...]
    blocks: list[int] = field(default_factory=list)

    def still_missing(self, keys: Sequence[BlockKey]) -> range:
        """Return the places of the pin's missing blocks that the prefix `keys` has."""
        start = len(self.blocks)
        return range(start, max(start, _common(self.keys, keys)))


class Pins:
    """All pins by key. Engine thread only.

    Invariant: each pin is one user of each of its blocks, and holds a prefix without a gap.
    """

    def __init__(self) -> None:
        self._pins: dict[str, Pin] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all pins."""
        return tuple(self._pins)

    @property
    def num_blocks(self) -> int:
        """Different blocks that pins hold now."""
        return len({block for pin in self._pins.values() for block in pin.blocks})

    def users(self) -> Iterator[int]:
        """Every block once for each pin that holds it."""
        for pin in self._pins.values():
            yield from pin.blocks

    def all(self) -> Iterator[Pin]:
        """Every pin."""
        yield from self._pins.values()

    def incomplete(self) -> Iterator[Pin]:
        """The pins whose last blocks do not exist yet."""
        return (pin for pin in self._pins.values() if len(pin.blocks) < len(pin.keys))

    def num_promised_with(self, key: str, keys: Sequence[BlockKey]) -> int:
        """Return how many blocks all pins may come to hold once `key` pins `keys`."""
        paths = [pin.keys for name, pin in self._pins.items() if name != key]
        # Sorted, paths with a common beginning are neighbours: count that once.
        ordered = sorted([*paths, tuple(keys)])
        shared = sum(_common(a, b) for a, b in pairwise(ordered))
        return sum(len(path) for path in ordered) - shared

    def get(self, key: str) -> Pin | None:
        """Return a pin; None when there is none."""
        return self._pins.get(key)

    def put(self, key: str, pin: Pin) -> Pin | None:
        """Take a pin; return the one that had the key before."""
        old = self._pins.get(key)
        self._pins[key] = pin
        return old

    def pop(self, key: str) -> Pin | None:
        """Give a pin up; None when there is none."""
        return self._pins.pop(key, None)


def _common(a: Sequence[BlockKey], b: Sequence[BlockKey]) -> int:
    count = 0
    for mine, other in zip(a, b, strict=False):
        if mine != other:
            break
        count += 1
    return count
