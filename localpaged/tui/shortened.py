"""Cutting text to cells of the screen, with a mark where something is left out."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def shortened(text: str, cells: int, mark: str) -> str:
    """Return as much of `text` as fits into `cells` before `mark`.

    Of a wide character that fits half nothing is left, no blank before the mark either: so it may
    be a cell shorter.
    """
    cut = set_cell_size(text, max(0, cells - cell_len(mark)))
    return (cut if text.startswith(cut) else cut[:-1]) + mark
