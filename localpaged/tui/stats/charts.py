"""Many curves in a grid: as high as there is room for, each with its value, its scale, its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from localpaged.tui.glyphs import UNICODE, Glyphs
from localpaged.tui.markdown.line import STRONG, Role
from localpaged.tui.stats.curves import Column, area, columns_per_cell
from localpaged.tui.stats.ink import BLANK, Ink, InkLine, Shade, beside, fitted, ink_cells
from localpaged.tui.stats.scale import ceiling

LEAST_CELLS, MOST_COLUMNS = 32, 4
MOST_PLOT_ROWS = 6
GUTTER_CELLS = 6
"""For a number of the scale and the space behind it."""
GAP_CELLS = 3
INLINE_TITLE_CELLS, INLINE_VALUE_CELLS = 13, 13
DIMMEST = 0.55

Look = Callable[[int], "Curve"]
Span = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve's columns, and those of a second one that is drawn as its upper edge."""

    columns: Sequence[Column]
    edge: Sequence[Column] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """One thing that is measured: its name and its value now, and how its curve is drawn.

    `look` returns the curve in so many columns. `label` writes a number of the scale, which never
    ends below `least`.
    """

    title: str
    value: str
    look: Look
    paint: str
    label: Callable[[float], str]
    least: float = 1.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """How charts are laid out: `across` of them a row, each `cells` wide and `rows` high."""

    across: int
    cells: int
    rows: int


def grid_of(num_charts: int, *, cells: int, rows: int) -> Grid:
    """Return the layout that shows most of each chart in this room."""
    across = max(1, min(MOST_COLUMNS, cells // LEAST_CELLS, num_charts))
    each = (cells - GAP_CELLS * (across - 1)) // across
    deep = -(-num_charts // across)
    return Grid(across, max(1, each), max(1, min(rows // deep, MOST_PLOT_ROWS + 2)))


def chart_lines(
    charts: Sequence[Chart], *, cells: int, rows: int, glyphs: Glyphs, span: Span
) -> list[InkLine]:
    """Return at most `rows` rows; where not all charts fit, the first ones are shown.

    `span` tells how long so many columns are. The line with it is given up before a chart is.
    """
    if not charts or cells < 1 or rows < 1:
        return []
    deep = -(-len(charts) // grid_of(len(charts), cells=cells, rows=rows).across)
    has_axis = rows > deep
    grid = grid_of(len(charts), cells=cells, rows=rows - has_axis)
    lines: list[InkLine] = []
    for first in range(0, len(charts), grid.across):
        blocks = [_chart(chart, grid, glyphs) for chart in charts[first : first + grid.across]]
        lines += [_side_by_side(parts, grid) for parts in zip(*blocks, strict=True)]
    lines = lines[: rows - has_axis]
    if has_axis:
        lines.append(_axis(grid, glyphs, span))
    return lines


def _side_by_side(parts: Sequence[InkLine], grid: Grid) -> InkLine:
    row: list[Ink] = []
    for place, part in enumerate(parts):
        row += [Ink(" " * GAP_CELLS)] if place else []
        row += [*part, Ink(" " * max(0, grid.cells - ink_cells(part)))]
    return tuple(row)


def _chart(chart: Chart, grid: Grid, glyphs: Glyphs) -> list[InkLine]:
    """A chart as `grid.rows` rows."""
    if grid.rows == 1:
        return [_inline(chart, grid.cells, glyphs)]
    # a blank row below each, where there is room for it
    has_gap = grid.rows >= 4
    plot_rows = grid.rows - 1 - has_gap
    title = [Ink(chart.title, Role.TEXT, STRONG)]
    if chart.note:
        title.append(Ink(f" {chart.note}", Role.FAINT))
    value = fitted([Ink(chart.value, Shade(chart.paint), STRONG)], grid.cells)
    head = beside(title, value, grid.cells)
    lines = [head, *_plot(chart, grid.cells, plot_rows, glyphs)]
    return [*lines, BLANK] if has_gap else lines


def _inline(chart: Chart, cells: int, glyphs: Glyphs) -> InkLine:
    """Name, value and a curve of one row; the curve goes first where there is little room."""
    name = fitted([Ink(f"{chart.title:<{INLINE_TITLE_CELLS}}", Role.DIM)], INLINE_TITLE_CELLS)
    value = Ink(f"{chart.value:>{INLINE_VALUE_CELLS}} ", Shade(chart.paint), STRONG)
    room = cells - ink_cells(name) - cell_len(value.text)
    plot = _plot(chart, room, 1, glyphs)[0] if room > GUTTER_CELLS else ()
    return fitted((*name, value, *plot), cells)


def _plot(chart: Chart, cells: int, rows: int, glyphs: Glyphs) -> list[InkLine]:
    """The curve with its scale at the left: the number of its top and, two rows high, its zero."""
    is_ascii = glyphs is not UNICODE
    room = cells - GUTTER_CELLS
    if room < 1:
        return [BLANK] * rows  # nothing but the value
    curve = chart.look(room * columns_per_cell(is_ascii=is_ascii))
    top = ceiling((*curve.columns, *curve.edge), least=chart.least)
    texts = area(curve.columns, top=top, rows=rows, is_ascii=is_ascii, line=curve.edge)
    marks = [chart.label(top), *[""] * (rows - 2), "0"] if rows > 1 else [chart.label(top)]
    return [
        (
            Ink(f"{mark:>{GUTTER_CELLS - 1}} ", Role.FAINT),
            Ink(text, Shade(chart.paint, _part(y, rows))),
        )
        for y, (mark, text) in enumerate(zip(marks, texts, strict=True))
    ]


def _part(y: int, rows: int) -> float:
    """How bright a row is: the higher, the brighter."""
    return 1.0 if rows == 1 else 1.0 - (1.0 - DIMMEST) * y / (rows - 1)


def _axis(grid: Grid, glyphs: Glyphs, span: Span) -> InkLine:
    """When the left end of a curve was; its right end is now."""
    room = grid.cells - GUTTER_CELLS
    if grid.rows == 1:
        room -= INLINE_TITLE_CELLS + INLINE_VALUE_CELLS + 1
    length = span(max(1, room) * columns_per_cell(is_ascii=glyphs is not UNICODE))
    past, now = f"{length} ago ", " now"
    if grid.rows == 1:
        return (Ink(fitted_text(f"curves: {past}to{now}", grid.cells), Role.FAINT),)
    room = grid.cells - GUTTER_CELLS - len(past) - len(now)
    if room < 0:
        return BLANK
    one = " " * GUTTER_CELLS + past + glyphs.rule * room + now
    return tuple(
        Ink((" " * GAP_CELLS if place else "") + one, Role.FAINT) for place in range(grid.across)
    )


def fitted_text(text: str, cells: int) -> str:
    """Return the text where there is room for all of it, else nothing."""
    return text if cell_len(text) <= cells else ""
