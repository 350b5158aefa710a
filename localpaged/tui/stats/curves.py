"""Curves as rows of characters: filled areas in braille, with a twin in plain ASCII.

A curve is one number or None for each column; None is where nothing is known. A column is half a
cell wide in braille, which has two by four dots a cell, and a whole cell in ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

Column = float | None

DOTS = 4
"""Levels of one braille cell."""
BRAILLE = 0x2800
# the dots of a cell's left and right half, from below
_LEFT, _RIGHT = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)
_ASCII_LEVELS = " .:#"
ASCII_DOTS = len(_ASCII_LEVELS) - 1


def columns_per_cell(*, is_ascii: bool) -> int:
    """How many columns of a curve one cell shows."""
    return 1 if is_ascii else 2


def area(
    columns: Sequence[Column],
    *,
    top: float,
    rows: int,
    is_ascii: bool,
    line: Sequence[Column] = (),
) -> list[str]:
    """Return `rows` texts from above to below: the area under a curve up to `top`, filled.

    `line` is a second curve of which the edge alone is drawn. What is more than nothing shows at
    least one dot; what is above `top` is cut there.
    """
    dots = ASCII_DOTS if is_ascii else DOTS
    levels = [_level(value, top, rows * dots) for value in columns]
    edges = [_level(value, top, rows * dots) for value in line] or [0] * len(levels)
    if is_ascii:
        return [_ascii_row(levels, edges, rows - 1 - y) for y in range(rows)]
    return [_braille_row(levels, edges, rows - 1 - y) for y in range(rows)]


def _level(value: Column, top: float, most: int) -> int:
    """How many dots high a column is."""
    if value is None or value <= 0 or top <= 0:
        return 0
    return max(1, min(most, round(value * most / top)))


def _braille_row(levels: Sequence[int], edges: Sequence[int], from_below: int) -> str:
    base = from_below * DOTS
    bits = [
        _half_cell(level - base, edge - base, _RIGHT if place % 2 else _LEFT)
        for place, (level, edge) in enumerate(zip(levels, edges, strict=True))
    ]
    bits += [0] * (len(bits) % 2)
    cells = zip(islice(bits, 0, None, 2), islice(bits, 1, None, 2), strict=True)
    # an empty braille cell is drawn as faint dots by some fonts
    return "".join(chr(BRAILLE + (a | b)) if a | b else " " for a, b in cells)


def _half_cell(level: int, edge: int, dots: tuple[int, ...]) -> int:
    bits = sum(dots[: max(0, min(DOTS, level))])
    return bits | dots[edge - 1] if 0 < edge <= DOTS else bits


def _ascii_row(levels: Sequence[int], edges: Sequence[int], from_below: int) -> str:
    base = from_below * ASCII_DOTS
    return "".join(
        "-"
        if level <= base < edge <= base + ASCII_DOTS
        else _ASCII_LEVELS[max(0, min(ASCII_DOTS, level - base))]
        for level, edge in zip(levels, edges, strict=True)
    )
