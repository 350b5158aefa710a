"""Tables: columns as wide as their text where there is room, wrapped cells where there is not."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from localpaged.tui.markdown.line import BLANK, STRONG, Line, Role, Run
from localpaged.tui.markdown.wrap import wrap_runs

GAP = " │ "
MIN_COLUMN_CELLS = 4
Cell = Sequence[Run]


def table_lines(rows: Sequence[Sequence[Cell]], aligns: Sequence[str], width: int) -> list[Line]:
    """Lay a table out in `width` cells; the first row is its header."""
    columns = max((len(row) for row in rows), default=0)
    if not columns:
        return []
    full = [[*row, *([()] * (columns - len(row)))] for row in rows]
    room = width - len(GAP) * (columns - 1)
    if room < columns * MIN_COLUMN_CELLS:
        return _records(full, width)
    widths = _column_widths(full, room)
    aligned = [*aligns, *([""] * (columns - len(aligns)))]
    lines = _row_lines(full[0], widths, aligned)
    lines.append(Line(prefix=(Run("─┼─".join("─" * cells for cells in widths), Role.RULE),)))
    for row in full[1:]:
        lines.extend(_row_lines(row, widths, aligned))
    return lines


def _column_widths(rows: Sequence[Sequence[Cell]], room: int) -> list[int]:
    natural = [
        max(3, *(max(map(cell_len, _text(cell).split("\n"))) for cell in column))
        for column in zip(*rows, strict=True)
    ]
    if sum(natural) <= room:
        return natural
    # narrow columns keep their width; what is left is shared by the wide ones in proportion
    widths = list(natural)
    open_columns = set(range(len(widths)))
    left = room
    while open_columns:
        fair = left // len(open_columns)
        small = {column for column in open_columns if natural[column] <= fair}
        if not small:
            break
        left -= sum(natural[column] for column in small)
        open_columns -= small
    total = sum(natural[column] for column in open_columns)
    for column in open_columns:
        widths[column] = max(MIN_COLUMN_CELLS, left * natural[column] // total)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def _row_lines(row: Sequence[Cell], widths: Sequence[int], aligns: Sequence[str]) -> list[Line]:
    columns = [wrap_runs(cell, cells) for cell, cells in zip(row, widths, strict=True)]
    height = max(len(column) for column in columns)
    lines: list[Line] = []
    for number in range(height):
        runs: list[Run] = []
        for index, column in enumerate(columns):
            if index:
                runs.append(Run(GAP, Role.RULE))
            cell = column[number].runs if number < len(column) else ()
            runs.extend(_padded(cell, widths[index], aligns[index]))
        lines.append(Line(tuple(runs)))
    return lines


def _padded(cell: Sequence[Run], cells: int, align: str) -> list[Run]:
    spare = max(0, cells - sum(cell_len(run.text) for run in cell))
    left = {"right": spare, "center": spare // 2}.get(align, 0)
    padded = [Run(" " * left), *cell, Run(" " * (spare - left))]
    return [run for run in padded if run.text]


def _records(rows: Sequence[Sequence[Cell]], width: int) -> list[Line]:
    """A table too wide for the screen reads as one "header: value" line a cell."""
    header, *body = rows
    lines: list[Line] = []
    for row in body or [header]:
        if lines:
            lines.append(BLANK)
        for name, cell in zip(header, row, strict=True):
            label = Run(f"{_text(name)}: ", Role.DIM, STRONG)
            lines.extend(wrap_runs([label, *cell], width))
    return lines


def _text(cell: Cell) -> str:
    return "".join(run.text for run in cell)
