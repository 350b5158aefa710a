"""What a terminal shows after all that was written to it, beside a picture painted from nothing.

Textual writes only what it takes for changed, from strips that widgets keep. So a picture may be
wrong in the terminal alone: nothing asks for its rows again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, split_graphemes
from textual._compositor import CompositorUpdate
from textual.screen import Screen
from textual.widget import Widget

from localpaged.tui.widgets.document_view import DocumentView
from localpaged.tui.widgets.line_list import LineList
from localpaged.tui.widgets.row_scroll_bar import RowScrollBar

if TYPE_CHECKING:
    from asyncio import Queue

    from rich.console import RenderableType
    from textual.message import Message

    from testkit.screens import Stage

SEQUENCE = re.compile(r"\x1b\[([0-9;:]*)([A-Za-z])|\x1b\]8;[^\x1b]*\x1b\\|\n|[^\x1b\n]+|\x1b.")
PATIENCE = 400
MOVING = 4

Cell = tuple[str, str]
"""What stands in a cell, and the sequence that gave it its style; `""` is a wide one's rest."""


class Glass:
    """The cells of a terminal. Clusters of characters take as many as Rich says."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self.rows = [[(" ", "")] * width for _ in range(height)]

    def write(self, text: str) -> None:
        """Take what a program writes."""
        x = y = 0
        style = ""
        for found in SEQUENCE.finditer(text):
            piece = found[0]
            if found[2] == "H":
                y, x = (int(number) - 1 for number in found[1].split(";"))
            elif found[2] == "m":
                style = "" if found[1] in ("", "0") else found[1]
            elif piece == "\n":
                x, y = 0, y + 1
            elif not piece.startswith("\x1b"):
                x = self._put(piece, x, y, style)

    def _put(self, text: str, x: int, y: int, style: str) -> int:
        if not 0 <= y < self._height:
            return x + cell_len(text)
        row = self.rows[y]
        for start, end, cells in split_graphemes(text)[0]:
            after = min(x + cells, self._width)
            if x < after:
                self._break(row, x)
            if after < self._width:
                self._break(row, after)
            for at in range(x, after):
                row[at] = (text[start:end] if at == x else "", style)
            x += cells
        return x

    @staticmethod
    def _break(row: list[Cell], x: int) -> None:
        """Blank a cluster that is about to lose the cells from `x` on, or those before."""
        if row[x][0]:
            return
        first = max(at for at in range(x) if row[at][0])
        row[first] = (" ", row[first][1])
        while x < len(row) and not row[x][0]:
            row[x] = (" ", row[x][1])
            x += 1

    @property
    def text(self) -> list[str]:
        """The rows without their styles."""
        return ["".join(text for text, _ in row) for row in self.rows]


class Looker:
    """Holds what the terminal of a stage shows; everything is compared between two messages."""

    def __init__(self, shown: Stage) -> None:
        self._shown = shown
        self._app = shown.app
        self._console = self._app.console
        self.glass = Glass(*self._app.size)
        # the app is as headless as before, but what it would write is seen
        self._app._display = self._display  # type: ignore[method-assign]
        self._repaint()

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        update = renderable
        if isinstance(update, CompositorUpdate) and not self._app._batch_count:
            if (len(self.glass.rows[0]), len(self.glass.rows)) != tuple(self._app.size):
                self.glass = Glass(*self._app.size)
            self.glass.write(update.render_segments(self._console))

    def _full(self) -> Glass:
        screen = self._app.screen
        glass = Glass(*self._app.size)
        update = screen._compositor.render_update(
            full=True, screen_stack=self._app._background_screens
        )
        assert isinstance(update, CompositorUpdate)
        glass.write(update.render_segments(self._console))
        return glass

    def _repaint(self) -> None:
        self.glass = self._full()

    async def settle(self) -> None:
        """Wait until everything that is to be drawn is drawn."""
        for _ in range(PATIENCE):
            await self._shown.settle()
            if self._shown.app.typist.is_idle and not self._due:
                return
            await self._shown.pilot.pause(0.005)
        raise AssertionError(f"the screen never comes to rest: {self._due}")

    @property
    def _screens(self) -> list[Screen[Any]]:
        """Those that are seen, be it below a dialog."""
        below = [screen for screen in self._app._background_screens if screen.is_current]
        return [self._app.screen, *below]

    @property
    def _due(self) -> list[str]:
        """What has still to be drawn."""
        of_app: list[str] = [] if self._app._message_queue.empty() else ["app"]
        return of_app + [
            f"{screen} {name}"
            for screen in self._screens
            for name, is_due in (
                ("widgets", screen._dirty_widgets),
                ("layout", screen._layout_required),
                ("scroll", screen._scroll_required),
                # Textual leaves a screen below a dialog so when it has drawn it
                ("repaint", screen._repaint_required and screen is self._app.screen),
                ("callbacks", screen._callbacks),
                ("regions", screen._compositor._dirty_regions),
                ("messages", not screen._message_queue.empty()),
                *((str(part), True) for part in screen.walk_children(Widget) if _is_busy(part)),
            )
            if is_due
        ]

    async def check(self) -> None:
        """Compare the terminal with a picture from nothing; fails with the rows that differ.

        What a timer draws in between is waited for: then the terminal has it, too.
        """
        for _ in range(MOVING):
            await self.settle()
            fresh = self._from_nothing()
            if not (wrong := differences(self.glass, fresh)):
                return
            await self._shown.pilot.pause(0.05)
        raise AssertionError("\n".join(wrong[:12]))

    def _from_nothing(self) -> Glass:
        for screen in self._screens:
            for widget in (screen, *_parts_of(screen)):
                _forget_painted(widget)
        return self._full()


def _is_busy(widget: Widget) -> bool:
    """Whether a part has still to tell its screen what to draw."""
    queue: Queue[Message | None] = widget._message_queue
    is_coming_or_going = not (widget.is_mounted and widget.is_running)
    return (
        is_coming_or_going
        or widget._repaint_required
        or widget._layout_required
        or not queue.empty()
    )


def _parts_of(screen: Screen[Any]) -> Iterator[Widget]:
    for widget in screen.walk_children(Widget):
        yield widget
        yield from (
            bar
            for bar in (widget._vertical_scrollbar, widget._horizontal_scrollbar)
            if bar is not None
        )


def _forget_painted(widget: Widget) -> None:
    refresh = widget.refresh
    widget.refresh = lambda *_, **__: widget  # type: ignore[method-assign]
    try:
        # what a new theme makes every widget forget
        widget.notify_style_update()
    finally:
        widget.refresh = refresh  # type: ignore[method-assign]
    widget._styles_cache.clear()
    # what `render` made is asked for again
    widget._dirty_regions.add(widget.outer_size.region)
    if isinstance(widget, DocumentView):
        widget._strips.clear()
        widget._painter = None
    elif isinstance(widget, RowScrollBar):
        widget._painted = ()
    elif isinstance(widget, LineList):
        widget._painters.clear()


def differences(written: Glass, fresh: Glass) -> list[str]:
    """The rows in which two terminals differ, and where they begin to."""
    assert len(written.rows) == len(fresh.rows)
    pairs = enumerate(zip(written.rows, fresh.rows, strict=True))
    return [
        f"row {y}, cell {x}:\n  written {written.text[y]!r} {row[x]}\n"
        f"  fresh   {fresh.text[y]!r} {due[x]}"
        for y, (row, due) in pairs
        if (x := next((x for x in range(len(row)) if row[x] != due[x]), None)) is not None
    ]
