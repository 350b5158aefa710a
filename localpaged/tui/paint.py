"""From roles to what Textual paints: segments for line widgets, content for one-line widgets."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content, Span
from textual.strip import Strip
from textual.style import Style

from localpaged.tui.markdown.line import Line, Role, Run
from localpaged.tui.shortened import shortened
from localpaged.tui.theme import style_of

HREF = "href"


def content_of(runs: Iterable[Run]) -> Content:
    """Runs as one piece of content; theme colours are looked up when it is drawn."""
    text: list[str] = []
    spans: list[Span] = []
    position = 0
    for run in runs:
        end = position + len(run.text)
        text.append(run.text)
        spans.append(Span(position, end, style_of(run.role, run.marks)))
        position = end
    return Content("".join(text), spans)


def cells_of(runs: Iterable[Run]) -> int:
    """The width of runs on the screen."""
    return sum(cell_len(run.text) for run in runs)


def cut_runs(runs: Iterable[Run], cells: int, *, mark: str = "…") -> list[Run]:
    """Return what fits into so many cells; where that is not all, `mark` is its end."""
    kept: list[Run] = []
    room = cells
    for run in runs:
        used = cell_len(run.text)
        if used > room:
            mark = mark[: max(0, room)]
            text = shortened(run.text, room, mark)
            return [*kept, run._replace(text=text)]
        kept.append(run)
        room -= used
    return kept


class Painter:
    """Turns lines into strips over one ground; to be thrown away when the theme changes."""

    def __init__(self, ground: Style, selection: Style) -> None:
        self._ground = ground
        self._selection = selection
        self._styles: dict[tuple[Role, int, str], Style] = {}

    def strip(
        self,
        line: Line,
        *,
        width: int,
        margin: int,
        column: int,
        y: int,
        selected: tuple[int, int] | None = None,
    ) -> Strip:
        """Paint `line` into `width` cells: `margin` empty ones, then `column` ones of text.

        Every segment carries where it lies in the line, so that a mouse can select text.
        `selected` is a range of characters; an end of -1 means to the line's end.
        """
        ground = self._ground.rich_style_with_offset(0, y)
        segments = [Segment(" " * margin, ground)] if margin else []
        for run in line.prefix:
            style = self._style(run.role, run.marks, "")
            segments.append(Segment(run.text, style.rich_style_with_offset(0, y)))
        x = 0
        for text, style in self._selected_pieces(line.runs, selected):
            segments.append(Segment(text, style.rich_style_with_offset(x, y)))
            x += len(text)
        used = cells_of(line.prefix) + cells_of(line.runs)
        if line.fill is not None and used < column:
            fill = self._style(line.fill, 0, "").rich_style_with_offset(x, y)
            segments.append(Segment(" " * (column - used), fill))
            used = column
        segments.append(
            Segment(" " * max(0, width - margin - used), self._ground.rich_style_with_offset(x, y))
        )
        return Strip(segments).adjust_cell_length(width, self.ground)

    @property
    def ground(self) -> RichStyle:
        """The style of empty space."""
        return self._ground.rich_style

    def _selected_pieces(
        self, runs: Iterable[Run], selected: tuple[int, int] | None
    ) -> Iterable[tuple[str, Style]]:
        position = 0
        for run in runs:
            style = self._style(run.role, run.marks, run.href)
            if selected is None:
                yield run.text, style
                continue
            start, end = selected
            first = min(len(run.text), max(0, start - position))
            last = len(run.text) if end < 0 else min(len(run.text), max(first, end - position))
            if first:
                yield run.text[:first], style
            if last > first:
                yield run.text[first:last], style + self._selection
            if last < len(run.text):
                yield run.text[last:], style
            position += len(run.text)

    def _style(self, role: Role, marks: int, href: str) -> Style:
        key = (role, marks, href)
        style = self._styles.get(key)
        if style is None:
            style = self._ground + Style.parse(style_of(role, marks))
            if href:
                style += Style.from_meta({HREF: href})
            self._styles[key] = style
        return style
