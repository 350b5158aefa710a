"""Painting rows past Textual's borders, padding and tint, where a widget has none of these.

Textual puts every row through all of them each time anything near it changes. With eight panes
that stream this was most of the screen's cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


def has_bare_rows(widget: Widget) -> bool:
    """Whether nothing is drawn beside or over the rows; padding is left to the widget."""
    styles = widget.styles
    edges = (*styles.border, *styles.outline)
    return not (any(edge for edge, _ in edges) or styles.tint.a) and widget.opacity == 1.0


def bare_rows(
    widget: Widget, crop: Region, *, row: Callable[[int], Strip], ground: Style
) -> list[Strip] | None:
    """Return rows of a widget, or None where Textual has to style them.

    `row` paints one row of the content; the padding above and below it is `ground`.
    """
    padding = widget.styles.padding
    if padding.width or not has_bare_rows(widget):
        return None
    width, height = widget.outer_size
    content = range(padding.top, height - padding.bottom)
    strips = (
        row(y - padding.top).adjust_cell_length(width, ground)
        if y in content
        else Strip.blank(width, ground)
        for y in crop.line_range
    )
    return finished(widget, strips, crop)


def finished(widget: Widget, strips: Iterable[Strip], crop: Region) -> list[Strip]:
    """Put rows of the widget's whole width through the app's filters, and cut them to `crop`."""
    background = widget.background_colors[1]
    for each in widget.get_line_filters():
        strips = [strip.apply_filter(each, background) for strip in strips]
    return [strip.crop(*crop.column_span) for strip in strips]
