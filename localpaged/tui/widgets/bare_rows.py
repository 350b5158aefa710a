"""Painting rows past Textual's borders, padding and tint, where a widget has none of these.

Textual puts every row through all of them each time anything near it changes. With eight panes
that stream this was most of the screen's cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


def has_bare_rows(widget: Widget) -> bool:
    """Whether nothing is drawn around or over the rows; padding is left to the widget."""
    styles = widget.styles
    edges = (*styles.border, *styles.outline)
    return not (any(edge for edge, _ in edges) or styles.tint.a) and widget.opacity == 1.0


def finished(widget: Widget, strips: Iterable[Strip], crop: Region) -> list[Strip]:
    """Put rows of the widget's whole width through the app's filters, and cut them to `crop`."""
    background = widget.background_colors[1]
    for each in widget.get_line_filters():
        strips = [strip.apply_filter(each, background) for strip in strips]
    return [strip.crop(*crop.column_span) for strip in strips]
