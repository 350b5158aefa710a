"""What a check tells while it runs: frozen values that cross from its process to the script's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison of an operator with its reference.

    `error` is the largest difference as a share of what is tolerated: up to 1 they agree.
    """

    operator: str
    name: str
    error: float

    @property
    def is_ok(self) -> bool:
        """Whether they agree; what is not a number does not."""
        return self.error <= 1.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number: the median of its runs between the first and the third quartile.

    `beside` are other systems' medians of the same work in the same run and unit, `facts` what
    follows from it, such as gigabytes a second or a share of the bandwidth.
    """

    name: str
    unit: str
    median: float
    low: float
    high: float
    runs: int
    beside: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """What has to hold. `is_met` None: not judged, since this is a rehearsal."""

    name: str
    got: float
    wanted: float
    unit: str
    is_met: bool | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """Something that was not done, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it must be: the check has failed."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Machine:
    """What the check ran on, and with which versions."""

    facts: Mapping[str, Any]


Entry = Case | Figure | Bar | Skip | Fault | Machine
