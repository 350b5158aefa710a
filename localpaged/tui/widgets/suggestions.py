"""A few lines above the prompt: what may be written next. Drawn, never focused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.offers import Offer
from localpaged.tui.paint import cells_of, content_of

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.glyphs import Glyphs

MAX_ROWS = 6
GAP_CELLS = 2


class Suggestions(Widget):
    """Shows some offers and which of them is meant; what is clicked is posted, not done.

    Invariant: `_top` is the first row that is shown, and the marked one is among those shown.
    """

    DEFAULT_CSS = "Suggestions { height: auto; width: 1fr; display: none; }"
    ALLOW_SELECT = False

    class Clicked(Message):
        """An offer is taken."""

        def __init__(self, offer: Offer) -> None:
            super().__init__()
            self.offer = offer

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._offers: Sequence[Offer] = ()
        self._marked: int | None = None
        self._top = 0

    def show(self, offers: Sequence[Offer], marked: int | None) -> None:
        """Show these, one of them marked; none take no room."""
        if (offers, marked) == (self._offers, self._marked):
            return
        # a low terminal shows the answer as well
        num_rows = min(MAX_ROWS, max(1, self.app.size.height // 4), len(offers))
        self._top = min(self._top, max(0, len(offers) - num_rows))
        if marked is not None:
            self._top = max(min(self._top, marked), marked - num_rows + 1)
        self._offers, self._marked = offers, marked
        self.display = bool(offers)
        self.styles.height = num_rows
        self.refresh()

    def render(self) -> Content:
        """The rows in view."""
        shown = self._offers[self._top : self._top + self.content_size.height]
        cells = max((cell_len(_usage(offer)) for offer in shown), default=0)
        room = self.content_size.width
        rows = [
            content_of(self._row(offer, cells, room, is_marked=self._top + row == self._marked))
            for row, offer in enumerate(shown)
        ]
        return Content("\n").join([row.truncate(room) for row in rows])

    def on_click(self, event: events.Click) -> None:
        """A click takes the row under it."""
        event.stop()
        offset = event.get_content_offset(self)
        row = self._top + (offset.y if offset is not None else len(self._offers))
        if row < len(self._offers):
            self.post_message(self.Clicked(self._offers[row]))

    def _row(self, offer: Offer, cells: int, room: int, *, is_marked: bool) -> list[Run]:
        sign = f"{self._glyphs.current} " if is_marked else "  "
        argument = f" {offer.argument}" if offer.argument else ""
        gap = " " * (cells - cell_len(offer.name + argument) + GAP_CELLS)
        runs = [
            Run(sign, Role.ACCENT),
            Run(offer.name, Role.USER if is_marked else Role.TEXT, STRONG if is_marked else 0),
            Run(f"{argument}{gap}", Role.FAINT),
            Run(offer.label, Role.DIM),
        ]
        key = Run(f"  {offer.key}" if offer.key else "", Role.FAINT)
        # what does not fit is left out, not cut in mid-word; what is to be written stays
        fitting = ([*runs, key], runs)
        return next((row for row in fitting if cells_of(row) <= room), runs[:-1])


def _usage(offer: Offer) -> str:
    return f"{offer.name} {offer.argument}".rstrip()
