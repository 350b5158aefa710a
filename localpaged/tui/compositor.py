"""Textual's compositor, as our screens use it: it paints what is due and forgets nothing new.

Textual paints every widget inside the box around all that changed, containers included. Where a
list at the left, a line at the top and an answer at the right move, that is the whole screen, ten
times a second. Here a widget paints the rows that changed, and what lies behind it nothing.

Whoever asks Textual where a widget lies makes it arrange all of them, new ones included, when the
screen was scrolled before. The layout after that finds nothing new, and a notice is never painted.
So the map of the last layout is kept for the next one. What changes in between may be looked for
where it does not lie, and is painted again with the layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from textual._compositor import ChopsUpdate, Compositor, CompositorMap, ReflowResult
from textual.geometry import Region, Size
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widget import Widget

Result = TypeVar("Result")


class FrugalCompositor(Compositor):
    """UI thread only.

    Invariant: `_laid_out` is the map of the last layout while another one has taken its place, and
    `_misplaced` has what was to be painted since then. `_due` has the regions that a partial update
    paints, and is None outside of one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap | None = None
        self._misplaced: set[Widget] = set()
        self._due: list[Region] | None = None

    @property
    def full_map(self) -> CompositorMap:
        """Where all widgets lie; the map of the last layout is kept for the next one."""
        if self._full_map_invalidated and self._laid_out is None:
            self._laid_out = self._full_map
        return super().full_map

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Lay out, and compare with the layout before."""
        if self._laid_out is not None:
            self._full_map, self._laid_out = self._laid_out, None
        result = super().reflow(parent, size)
        for widget in self.visible_widgets.keys() & self._misplaced:
            region, clip = self.visible_widgets[widget]
            if seen := region.intersection(clip):
                self._dirty_regions.add(seen)
        self._misplaced.clear()
        return result

    def update_widgets(self, widgets: set[Widget]) -> None:
        """Have widgets painted anew; before a layout that is due, once more with it."""
        super().update_widgets(widgets)
        if self._laid_out is not None:
            self._misplaced |= widgets

    def clear(self) -> None:
        """Forget all widgets: the screen is closed."""
        super().clear()
        self._laid_out = None
        self._misplaced.clear()

    def render_partial_update(self) -> ChopsUpdate | None:
        """Paint what changed since the last picture; None where nothing did."""
        screen = self.size.region
        self._due = [due for each in self._dirty_regions if (due := screen.intersection(each))]
        try:
            return super().render_partial_update()
        finally:
            self._due = None

    def _get_renders(
        self, crop: Region | None = None
    ) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """Yield the widgets from front to back: where each lies, what is seen of it, its rows."""
        if self._due is None:
            yield from super()._get_renders(crop)
            return
        due = self._due
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            touched = [each for each in due if seen.overlaps(each)]
            if not touched:
                continue
            first = max(seen.y, min(each.y for each in touched))
            end = min(seen.bottom, max(each.bottom for each in touched))
            rows = Region(seen.x, first, seen.width, end - first)
            yield region, rows, widget.render_lines(rows.translate(-region.offset))
            # what a widget covers hides all behind it
            due = [each for each in due if not seen.contains_region(each)]
            if not due:
                return


class OwnScreen(Screen[Result]):
    """A whole screen of ours."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._compositor = FrugalCompositor()

    @property
    def is_there(self) -> bool:
        """Whether it is put together, and is not being taken away: it may be drawn."""
        return self.is_mounted and not (self._pruning or self._closing or self._closed)


class Dialog(ModalScreen[Result]):
    """A dialog of ours; the screen below it shows around it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._compositor = FrugalCompositor()
