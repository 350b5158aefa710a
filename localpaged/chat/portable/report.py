"""What an import did, as values and as a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from localpaged.store.rows import Chat


class Outcome(StrEnum):
    """What became of a chat of the file. `BUSY`: it is answering, and was left as it is."""

    NEW = "new"
    GREW = "grew"
    KNOWN = "known"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Imported:
    """One chat, as it is in the history now."""

    chat: Chat
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The chats of a file. `problems` are sentences, `num_problems` may be more."""

    chats: tuple[Imported, ...]
    problems: tuple[str, ...]
    num_problems: int


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far an import is: chats that are in the history, and bytes of the file that are read."""

    num_chats: int = 0
    bytes_read: int = 0
    total_bytes: int = 0

    @property
    def words(self) -> str:
        """`1,204 chats · 37 %`; empty before anything is known."""
        chats = "1 chat" if self.num_chats == 1 else f"{self.num_chats:,} chats"
        share = 100 * self.bytes_read // self.total_bytes if self.total_bytes else 0
        return f"{chats}, {share} % of the file" if self.total_bytes else ""


def summary(chats: Iterable[Imported]) -> str:
    """Return the outcomes in a few words."""
    outcomes = [imported.outcome for imported in chats]
    new, grew, known, busy = (outcomes.count(outcome) for outcome in Outcome)
    parts = ["Imported 1 chat" if new == 1 else f"Imported {new:,} chats"]
    parts += [f"{grew:,} went on"] if grew else []
    parts += [f"{known:,} here already"] if known else []
    parts += [f"{busy:,} left alone while answering"] if busy else []
    return ", ".join(parts)
