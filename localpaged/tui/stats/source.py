"""Where the dashboard gets its pictures from, and one look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from localpaged.errors import StatsError
from localpaged.stats.schema import Snapshot

NOTHING: frozenset[str] = frozenset()


class StatsSource(Protocol):
    """Programs that run and what they tell. Called on threads, one call at a time; may be slow."""

    def engines(self) -> tuple[str, ...]:
        """Return the names of the programs that run, in the order of their start."""

    def read(self, engine: str, details: frozenset[str]) -> Snapshot:
        """Return what a program tells, with those of protocol.DETAILS that are wanted.

        Raises StatsError when it is gone, does not answer, or tells what cannot be read.
        """


@dataclass(frozen=True, slots=True)
class Wish:
    """Which program is to be looked at (None: the newest one), and at what of it."""

    engine: str | None = None
    details: frozenset[str] = NOTHING


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look has seen: the programs that run, the picture of one, or why there is none."""

    engines: tuple[str, ...]
    engine: str | None = None
    snapshot: Snapshot | None = None
    failure: StatsError | None = None


def look(source: StatsSource, wish: Wish) -> Sighting:
    """Look once, on any thread; a program that is gone is no picture, not an error."""
    try:
        engines = source.engines()
    except StatsError as error:
        return Sighting((), wish.engine, failure=error)
    engine = wish.engine if wish.engine is not None else engines[-1] if engines else None
    if engine is None or engine not in engines:
        return Sighting(engines, engine)
    try:
        snapshot = source.read(engine, wish.details)
    except StatsError as error:
        return Sighting(engines, engine, failure=error)
    return Sighting(engines, engine, snapshot)
