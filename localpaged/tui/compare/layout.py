"""Where panes stand: in rows of equal width, or one at a time behind a strip of tabs."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

MIN_PANE_COLUMNS = 40
MIN_PANE_ROWS = 12


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A grid of `columns`; pane n takes `spans[n]` of them. No cell of it is empty."""

    columns: int
    spans: tuple[int, ...]
    num_rows: int


def arrange(num_panes: int, *, width: int, height: int) -> Arrangement | None:
    """Return the fewest rows that give each pane its least size; None when there is no room."""
    for num_rows in range(1, num_panes + 1):
        per_row = -(-num_panes // num_rows)
        if height // num_rows < MIN_PANE_ROWS:
            return None
        if width // per_row < MIN_PANE_COLUMNS:
            continue
        # as even as it goes: the last rows have one less rather than a hole
        sizes = [
            num_panes // num_rows + (1 if row < num_panes % num_rows else 0)
            for row in range(num_rows)
        ]
        columns = lcm(*sizes)
        spans = tuple(columns // size for size in sizes for _ in range(size))
        return Arrangement(columns, spans, num_rows)
    return None
