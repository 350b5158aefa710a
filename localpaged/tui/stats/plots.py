"""One curve, or one stack of classes, as rows of ink with a scale at the left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from localpaged.tui.glyphs import UNICODE, Glyphs
from localpaged.tui.markdown.line import Role
from localpaged.tui.stats.curves import Column, area, columns_per_cell
from localpaged.tui.stats.ink import BLANK, Ink, InkLine, Shade
from localpaged.tui.stats.scale import ceiling

GUTTER_CELLS = 6
"""For a number of the scale and the space behind it."""
DIMMEST = 0.55
EIGHTHS = " ▁▂▃▄▅▆▇█"
FREE = Shade("free")


@dataclass(frozen=True, slots=True)
class Pen:
    """What can be drawn: these glyphs, and colours or none."""

    glyphs: Glyphs = UNICODE
    has_colours: bool = True

    @property
    def is_ascii(self) -> bool:
        """Whether curves are drawn in plain ASCII."""
        return self.glyphs is not UNICODE

    @property
    def columns_per_cell(self) -> int:
        """How many columns of a curve one cell shows."""
        return columns_per_cell(is_ascii=self.is_ascii)


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve's columns, and those of a second one that is drawn as its upper edge."""

    columns: Sequence[Column]
    edge: Sequence[Column] = ()


@dataclass(frozen=True, slots=True)
class Layer:
    """One class of a stack: how much of it there was, its colour, its glyph without colours."""

    columns: Sequence[Column]
    shade: Shade
    glyph: str


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers on each other, from below; what is left up to `top` is `rest`."""

    layers: tuple[Layer, ...]
    top: float
    rest: str


def curve_lines(
    look: Callable[[int], Curve],
    pen: Pen,
    *,
    cells: int,
    rows: int,
    paint: str,
    label: Callable[[float], str],
    least: float,
) -> list[InkLine]:
    """Return the curve: its scale tells its top and, where it is two rows high, its zero."""
    room = cells - GUTTER_CELLS
    if room < 1:
        return [BLANK] * rows  # nothing but the value
    curve = look(room * pen.columns_per_cell)
    top = ceiling((*curve.columns, *curve.edge), least=least)
    texts = area(curve.columns, top=top, rows=rows, is_ascii=pen.is_ascii, line=curve.edge)
    is_known = any(value is not None for value in (*curve.columns, *curve.edge))
    marks = scale_marks(label(top) if is_known else "", rows)
    drawn = [
        (mark, Ink(text, Shade(paint, _part(y, rows))))
        for y, (mark, text) in enumerate(zip(marks, texts, strict=True))
    ]
    return [*drawn[:-1], (drawn[-1][0], *_with_floor(drawn[-1][1], curve, pen))]


def stack_lines(
    look: Callable[[int], Stack], pen: Pen, *, cells: int, rows: int, label: Callable[[float], str]
) -> list[InkLine]:
    """Return the stack: eight levels a row where there are colours, else one."""
    room = cells - GUTTER_CELLS
    if room < 1:
        return [BLANK] * rows
    stack = look(room)
    fine = 8 if pen.has_colours and not pen.is_ascii else 1
    levels = rows * fine
    columns = [_classes(stack, place, levels) for place in range(room)]
    lines: list[InkLine] = []
    for mark, from_below in zip(
        scale_marks(label(stack.top), rows), range(rows - 1, -1, -1), strict=True
    ):
        cells_of_row = [_stack_cell(stack, column, from_below, fine) for column in columns]
        lines.append((mark, *_merged(cells_of_row)))
    return lines


def scale_marks(top: str, rows: int) -> list[Ink]:
    """Return the scale's numbers, a row each."""
    marks = [top, *[""] * (rows - 2), "0"] if rows > 1 else [top]
    return [Ink(f"{mark:>{GUTTER_CELLS - 1}} ", Role.FAINT) for mark in marks]


def _with_floor(bottom: Ink, curve: Curve, pen: Pen) -> InkLine:
    """Draw a floor where nothing was going on, and none where nothing is known."""
    if not pen.has_colours and not pen.is_ascii:
        return (bottom,)  # it would be taken for the lowest dots of a curve
    per_cell = pen.columns_per_cell
    floor = Ink("_" if pen.is_ascii else "⣀", Role.RULE)
    inks: list[Ink] = []
    for place, glyph in enumerate(bottom.text):
        columns = curve.columns[place * per_cell : (place + 1) * per_cell]
        is_idle = glyph == " " and all(column is not None for column in columns)
        inks.append(floor if is_idle else bottom._replace(text=glyph))
    return _merged(inks)


def _part(y: int, rows: int) -> float:
    """How bright a row is: the higher, the brighter."""
    return 1.0 if rows == 1 else 1.0 - (1.0 - DIMMEST) * y / (rows - 1)


def _classes(stack: Stack, place: int, levels: int) -> list[int] | None:
    """Return the layer at each level from below, `len(stack.layers)` above all; None unknown."""
    bounds: list[int] = []
    height = 0.0
    for layer in stack.layers:
        value = layer.columns[place]
        if value is None:
            return None
        height += value
        # anything at all shows one level, as far as there are any
        least = bounds[-1] if bounds else 0
        least += value > 0
        bounds.append(min(levels, max(least, round(height * levels / max(1.0, stack.top)))))
    return [sum(bound <= level for bound in bounds) for level in range(levels)]


def _stack_cell(stack: Stack, classes: list[int] | None, from_below: int, fine: int) -> Ink:
    """One cell: a class, or two of them with the edge between; of more, the two largest."""
    if classes is None:
        return Ink(" ")
    inside = classes[from_below * fine : (from_below + 1) * fine]
    if fine == 1:
        glyph = stack.rest if inside[0] == len(stack.layers) else stack.layers[inside[0]].glyph
        return Ink(glyph, _shade(stack, inside[0]))
    lower, upper = _two_largest(inside)
    height = sum(each <= lower for each in inside)
    return Ink(EIGHTHS[height], _shade(stack, lower), ground=_shade(stack, upper))


def _two_largest(classes: Sequence[int]) -> tuple[int, int]:
    """The two classes that take most of a cell, the lower one first; one alone is both."""
    largest = Counter(classes).most_common(2)
    return min(largest)[0], max(largest)[0]


def _shade(stack: Stack, layer: int) -> Shade:
    return stack.layers[layer].shade if layer < len(stack.layers) else FREE


def _merged(inks: Sequence[Ink]) -> InkLine:
    """Join what stands side by side and looks alike."""
    runs = groupby(inks, key=lambda ink: ink._replace(text=""))
    return tuple(key._replace(text="".join(ink.text for ink in run)) for key, run in runs)
