"""Which decodes of a step begin with the same blocks, in plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Table = TypeVar("Table", list[int], tuple[int, ...])

SMALLEST_SAVING_TOKENS = 256
"""Tokens that need not be read again; below, the additional operators cost more."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Decodes, by their places among all, that share their first `num_blocks` blocks."""

    rows: tuple[int, ...]
    num_blocks: int


@dataclass(frozen=True, slots=True)
class GroupNumbers:
    """The same for a kernel; see `triton_cascade.DeviceGroups`."""

    members: list[int]
    starts: list[int]
    lens: list[int]
    skips: list[int]


def shared_beginnings(
    tables: Sequence[Table], lens: Sequence[int], *, block_size: int
) -> list[Beginning]:
    """Return who shares a beginning that is worth it, of rows with `lens` tokens in their tables.

    Everybody has at least one token behind what is shared. A table may be longer than its row.
    """
    by_first: dict[int, list[int]] = {}
    for row, table in enumerate(tables):
        by_first.setdefault(table[0], []).append(row)
    found = []
    for rows in by_first.values():
        shortest = min((lens[row] - 1) // block_size for row in rows)
        if (len(rows) - 1) * shortest * block_size < SMALLEST_SAVING_TOKENS:
            continue
        count = _num_common([tables[row] for row in rows], limit=shortest)
        if (len(rows) - 1) * count * block_size >= SMALLEST_SAVING_TOKENS:
            found.append(Beginning(tuple(rows), count))
    return found


def group_numbers(
    found: Sequence[Beginning], *, num_rows: int, block_size: int, is_padded: bool = False
) -> GroupNumbers:
    """Return the groups of a step of `num_rows` decodes.

    Padded they take the same room whoever shares: as many members as rows, and half as many groups,
    those that do not exist without members and without tokens, of which nothing becomes.
    """
    members = [row for beginning in found for row in beginning.rows]
    lens = [beginning.num_blocks * block_size for beginning in found]
    starts, skips = [0], [0] * num_rows
    for beginning, length in zip(found, lens, strict=True):
        starts.append(starts[-1] + len(beginning.rows))
        for row in beginning.rows:
            skips[row] = length
    if is_padded:
        missing = max(num_rows // 2 - len(found), 0)
        starts += [starts[-1]] * missing
        lens += [0] * missing
        members += [0] * (num_rows - len(members))
    return GroupNumbers(members, starts, lens, skips)


def _num_common(tables: Sequence[Table], *, limit: int) -> int:
    low, high = min(tables), max(tables)
    # What the smallest and the largest table begin with, all others begin with.
    pairs = enumerate(zip(low[:limit], high[:limit], strict=True))
    return next((place for place, (a, b) in pairs if a != b), limit)
