"""Facts with a verdict, and how they are gathered: what fails becomes a fact that says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from localpaged.errors import LocalPagedError


class Verdict(StrEnum):
    """How a fact is to be taken: a note is worth knowing and stops nothing."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was looked at. Texts may hold anything; `advice` is what to do, or empty.

    `numbers` are the same as plain values: bytes, tokens, counts, texts.
    """

    name: str
    value: str
    verdict: Verdict = Verdict.OK
    advice: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Facts that belong together."""

    name: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was looked at."""

    groups: tuple[Group, ...]

    def count(self, verdict: Verdict) -> int:
        """Return how many facts have the verdict."""
        return sum(fact.verdict is verdict for group in self.groups for fact in group.facts)

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        worst = (Verdict.PROBLEM, Verdict.NOTE)
        return next((verdict for verdict in worst if self.count(verdict)), Verdict.OK)


Probe = Callable[[], Iterable[Fact]]


def note(name: str, value: str, advice: str = "", /, **numbers: Any) -> Fact:
    """Return a fact that is worth knowing."""
    return Fact(name, value, Verdict.NOTE, advice, numbers)


def problem(name: str, value: str, advice: str, /, **numbers: Any) -> Fact:
    """Return a fact that something is to be done about."""
    return Fact(name, value, Verdict.PROBLEM, advice, numbers)


def gathered(name: str, probe: Probe) -> tuple[Fact, ...]:
    """Return the facts of a probe; those before it failed, and that it failed, when it does."""
    facts: list[Fact] = []
    try:
        facts.extend(probe())
    except LocalPagedError as error:
        facts.append(problem(name, error.message, error.hint))
    except ImportError as error:
        advice = "A package is missing or broken: install localpaged and its packages again."
        facts.append(problem(name, _unlooked(error), advice))
    except Exception as error:
        # whatever is broken on a machine must not keep the rest from being told
        facts.append(problem(name, _unlooked(error), "This could not be looked at."))
    return tuple(facts)


def _unlooked(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
