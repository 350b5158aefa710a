"""Textual's compositor, which may take a part that is new for one that was painted already.

Whoever asks where a widget lies makes it arrange all of them, new ones included, when the screen
was scrolled before. The layout after that finds nothing new, and a notice is never painted.
"""

from __future__ import annotations

from textual import screen
from textual._compositor import Compositor, CompositorMap, ReflowResult
from textual.geometry import Size
from textual.widget import Widget


def paint_new_parts() -> None:
    """Have all screens use the compositor that knows what is new."""
    screen.Compositor = MindfulCompositor  # type: ignore[attr-defined]


class MindfulCompositor(Compositor):
    """UI thread only.

    Invariant: `_laid_out` is the map of the last layout while another one has taken its place.
    """

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap | None = None

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
        return super().reflow(parent, size)
