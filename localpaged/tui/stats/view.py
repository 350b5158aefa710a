"""Draws rows of ink. Rows that look as before cost nothing on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from localpaged.tui.markdown.line import STRONG
from localpaged.tui.memory.palette import Palette, palette_of, rich_colour, shaded
from localpaged.tui.stats.ink import BLANK, Ink, InkLine, Shade
from localpaged.tui.theme import style_of

NO_INK: tuple[InkLine, ...] = ()


class InkView(Widget):
    """Shows the rows that it was given last. UI thread only.

    Invariant: `_styles` are of the current theme.
    """

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines: Sequence[InkLine] = NO_INK
        self._styles: dict[Ink, RichStyle] = {}
        self.num_painted = 0

    def show(self, lines: Sequence[InkLine]) -> None:
        """Draw these rows; those that are the same stay on the screen as they are."""
        before, self._lines = self._lines, lines
        for y in range(self.content_size.height):
            if _row(before, y) != _row(lines, y):
                self.refresh(Region(0, y, self.content_size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Paint one row."""
        self.num_painted += 1
        segments = [Segment(ink.text, self._style(ink)) for ink in _row(self._lines, y)]
        ground = self.visual_style.rich_style
        return Strip(segments).adjust_cell_length(self.content_size.width, ground)

    def notify_style_update(self) -> None:
        """The theme or a style changed: paint anew."""
        super().notify_style_update()
        self._styles.clear()

    def _style(self, ink: Ink) -> RichStyle:
        key = ink._replace(text="")
        style = self._styles.get(key)
        if style is None:
            style = self._styles[key] = self._made(key)
        return style

    def _made(self, ink: Ink) -> RichStyle:
        if not isinstance(ink.paint, Shade):
            return (self.visual_style + Style.parse(style_of(ink.paint, ink.marks))).rich_style
        palette = palette_of(self.app.current_theme)
        ground = None if ink.ground is None else _colour(ink.ground, palette)
        bold = bool(ink.marks & STRONG) or None
        style = RichStyle(color=_colour(ink.paint, palette), bgcolor=ground, bold=bold)
        return self.visual_style.rich_style + style


def _row(lines: Sequence[InkLine], y: int) -> InkLine:
    return lines[y] if y < len(lines) else BLANK


def _colour(shade: Shade, palette: Palette) -> str:
    colour = rich_colour(shade.paint, palette)
    return colour if shade.part >= 1.0 else shaded(colour, palette, shade.part)
