"""What the colours of the block map mean, in one line."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content, Span
from textual.widget import Widget

from localpaged.plain_text import visible
from localpaged.tui.markdown.line import Role
from localpaged.tui.memory.palette import Palette, textual_colour
from localpaged.tui.memory.views import Picture, Swatch, View
from localpaged.tui.theme import style_of

TITLE_CELLS = 18


class MapLegend(Widget):
    """Tells the classes of the picture that it was given last, as many as fit. UI thread only."""

    DEFAULT_CSS = "MapLegend { height: 1; }"
    ALLOW_SELECT = False

    def __init__(self, *, is_ascii: bool, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._is_ascii = is_ascii
        self._told: tuple[tuple[Swatch, ...], str, Palette] = ((), "", Palette.DARK)

    def show(self, picture: Picture, view: View, palette: Palette) -> None:
        """Tell these; the same again costs nothing."""
        present = set(picture.classes)
        swatches: dict[str, Swatch] = {}
        for place, swatch in enumerate(picture.swatches):
            # two shades with one meaning are told once
            if place in present:
                swatches.setdefault(swatch.meaning, swatch)
        note = f" ({picture.note})" if picture.note else ""
        told = tuple(swatches.values()), f"by {view}{note}  ", palette
        if told != self._told:
            self._told = told
            self.refresh()

    def render(self) -> Content:
        """The line at the current width."""
        swatches, text, palette = self._told
        spans = [Span(0, len(text), style_of(Role.DIM))]
        for swatch in swatches:
            meaning = visible(swatch.meaning)
            if len(meaning) > TITLE_CELLS:
                meaning = meaning[: TITLE_CELLS - 1] + ("…" if not self._is_ascii else "~")
            mark = swatch.letter if self._is_ascii else "█"
            item = f"{mark} {meaning}   "
            if cell_len(text) + cell_len(item) > self.content_size.width:
                break
            start = len(text)
            text += item
            spans.append(Span(start, start + 1, textual_colour(swatch.paint, palette)))
            spans.append(Span(start + 1, len(text), style_of(Role.DIM)))
        return Content(text, spans)
