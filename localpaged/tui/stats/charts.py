"""Many charts in a grid: as high as there is room for, each with its value, its scale, its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from localpaged.tui.markdown.line import STRONG, Role
from localpaged.tui.stats.ink import BLANK, Ink, InkLine, Shade, beside, fitted, ink_cells
from localpaged.tui.stats.plots import GUTTER_CELLS, Curve, Pen, Stack, curve_lines, stack_lines

LEAST_CELLS, MOST_COLUMNS = 32, 4
MOST_PLOT_ROWS = 6
GAP_CELLS = 3
INLINE_TITLE_CELLS, INLINE_VALUE_CELLS = 13, 13

Span = Callable[[int], str]
Ends = tuple[str, str]
LIVE, HELD = ("ago", "now"), ("before", "then")
"""What the ends of a curve are called: of a picture of now, and of one of earlier."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One thing that is measured: its name and its value now, and how its curve is drawn.

    `look` returns the curve in so many columns. `label` writes a number of the scale, which never
    ends below `least`. Where there are more rows than one, `stack` is drawn instead.
    """

    title: str
    value: str
    look: Callable[[int], Curve]
    paint: str
    label: Callable[[float], str]
    least: float = 1.0
    note: str = ""
    stack: Callable[[int], Stack] | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """How charts are laid out: `across` of them a row, each `cells` wide and `rows` high.

    The first `num_taller` rows of charts are one row higher.
    """

    across: int
    cells: int
    rows: int
    num_taller: int = 0

    @property
    def has_gap(self) -> bool:
        """Whether there is a blank row below each chart."""
        return self.rows >= 4

    def plot_rows(self, band: int) -> int:
        """How high the curve of a chart in a row of charts is, without its name."""
        return self.rows - 1 - self.has_gap + (band < self.num_taller)


def grid_of(num_charts: int, *, cells: int, rows: int) -> Grid:
    """Return the layout that shows most of each chart in this room."""
    across = max(1, min(MOST_COLUMNS, cells // LEAST_CELLS, num_charts))
    each = (cells - GAP_CELLS * (across - 1)) // across
    deep = -(-num_charts // across)
    height, left = divmod(rows, deep)
    if height >= MOST_PLOT_ROWS + 2:
        return Grid(across, max(1, each), MOST_PLOT_ROWS + 2)
    # what is left over goes to those that matter most, unless it is for the line with the time
    return Grid(across, max(1, each), max(1, height), left if height >= 4 else 0)


def chart_lines(
    charts: Sequence[Chart], pen: Pen, *, cells: int, rows: int, span: Span, ends: Ends = LIVE
) -> list[InkLine]:
    """Return at most `rows` rows; where not all charts fit, the first ones are shown.

    `span` tells how long so many columns are, `ends` what their ends are called; the line with
    them is given up before a chart is.
    """
    if not charts or cells < 1 or rows < 1:
        return []
    grid = grid_of(len(charts), cells=cells, rows=rows)
    lines: list[InkLine] = []
    for band, first in enumerate(range(0, len(charts), grid.across)):
        shown = charts[first : first + grid.across]
        blocks = [_chart(chart, grid, band, pen) for chart in shown]
        lines += [_side_by_side(parts, grid) for parts in zip(*blocks, strict=True)]
    # below the last charts there is a blank row, or one that is left over, or none
    if grid.has_gap:
        return [*lines[:-1], _axis(grid, pen, span, ends)]
    return [*lines, _axis(grid, pen, span, ends)] if rows > len(lines) else lines[:rows]


def _side_by_side(parts: Sequence[InkLine], grid: Grid) -> InkLine:
    row: list[Ink] = []
    for place, part in enumerate(parts):
        row += [Ink(" " * GAP_CELLS)] if place else []
        row += [*part, Ink(" " * max(0, grid.cells - ink_cells(part)))]
    return tuple(row)


def _chart(chart: Chart, grid: Grid, band: int, pen: Pen) -> list[InkLine]:
    """A chart with its name above and, where there is room for it, a blank row below."""
    if grid.rows == 1:
        return [_inline(chart, grid.cells, pen)]
    title = [Ink(chart.title, Role.TEXT, STRONG)]
    if chart.note:
        title.append(Ink(f" {chart.note}", Role.FAINT))
    value = fitted([Ink(chart.value, Shade(chart.paint), STRONG)], grid.cells)
    lines = [beside(title, value, grid.cells), *_plot(chart, grid.cells, grid.plot_rows(band), pen)]
    return [*lines, BLANK] if grid.has_gap else lines


def _inline(chart: Chart, cells: int, pen: Pen) -> InkLine:
    """Name, value and a curve of one row; the curve goes first where there is little room."""
    name = fitted([Ink(f"{chart.title:<{INLINE_TITLE_CELLS}}", Role.DIM)], INLINE_TITLE_CELLS)
    value = Ink(f"{chart.value:>{INLINE_VALUE_CELLS}} ", Shade(chart.paint), STRONG)
    room = cells - ink_cells(name) - cell_len(value.text)
    plot = _plot(chart, room, 1, pen)[0] if room > GUTTER_CELLS else ()
    return fitted((*name, value, *plot), cells)


def _plot(chart: Chart, cells: int, rows: int, pen: Pen) -> list[InkLine]:
    if chart.stack is not None and rows > 1:
        return stack_lines(chart.stack, pen, cells=cells, rows=rows, label=chart.label)
    return curve_lines(
        *(chart.look, pen),
        cells=cells,
        rows=rows,
        paint=chart.paint,
        label=chart.label,
        least=chart.least,
    )


def _axis(grid: Grid, pen: Pen, span: Span, ends: Ends) -> InkLine:
    """When the left end of a curve was; its right end is now."""
    if grid.rows == 1:
        room = grid.cells - GUTTER_CELLS - INLINE_TITLE_CELLS - INLINE_VALUE_CELLS - 1
        length = span(max(1, room) * pen.columns_per_cell)
        text = f"curves: {length} {ends[0]} to {ends[1]}"
        return (Ink(text if cell_len(text) <= grid.cells else "", Role.FAINT),)
    room = grid.cells - GUTTER_CELLS
    past, now = f"{span(max(1, room) * pen.columns_per_cell)} {ends[0]} ", f" {ends[1]}"
    rule = room - len(past) - len(now)
    if rule < 0:
        return BLANK
    row: list[Ink] = []
    for place in range(grid.across):
        row += [
            Ink(" " * (GUTTER_CELLS + (GAP_CELLS if place else 0)) + past, Role.FAINT),
            Ink(pen.glyphs.rule * rule, Role.RULE),
            Ink(now, Role.FAINT),
        ]
    return tuple(row)
