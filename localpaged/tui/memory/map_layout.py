"""How a pool fits into so many cells: how many blocks a row, and how many one cell stands for."""

from __future__ import annotations

from dataclasses import dataclass

WIDE_ROW_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class MapLayout:
    """`columns` cells a row, each `cell_width` wide and `halves` of a row high.

    Each stands for `per_cell` blocks; the labels of the rows take `label_cells`.
    """

    columns: int
    halves: int
    per_cell: int
    label_cells: int = 6
    cell_width: int = 1

    def first_cell(self, y: int) -> int:
        """The number of the first cell in the row `y` of the terminal."""
        return y * self.columns * self.halves

    def cell_at(self, x: int, y: int) -> int | None:
        """The number of the cell at a place, of its two halves the upper; None beside them."""
        column = (x - self.label_cells) // self.cell_width
        return self.first_cell(y) + column if 0 <= column < self.columns else None


def layout_of(
    num_blocks: int, *, width: int, height: int, has_halves: bool, blocks_per_class: int = 1
) -> MapLayout:
    """Return the largest cells for which there is room: two wide, one, half a one.

    If not even these are enough, each half stands for 2, 4, 8 … blocks. A label has the number of
    a block times `blocks_per_class`.
    """
    label_cells = len(str(max(0, num_blocks * blocks_per_class - 1))) + 2
    room = max(1, width - label_cells)
    columns = room // WIDE_ROW_BLOCKS * WIDE_ROW_BLOCKS or room
    rows = max(1, height)
    wide = columns // 2 // WIDE_ROW_BLOCKS * WIDE_ROW_BLOCKS
    if num_blocks <= rows * wide:
        return MapLayout(wide, 1, 1, label_cells, 2)
    for halves in (1, 2) if has_halves else (1,):
        if num_blocks <= rows * columns * halves:
            return MapLayout(columns, halves, 1, label_cells)
    per_cell, halves = 2, 2 if has_halves else 1
    while num_blocks > rows * columns * halves * per_cell:
        per_cell *= 2
    return MapLayout(columns, halves, per_cell, label_cells)
