"""The block map: a pool as rows of coloured cells, two blocks a cell, more where it must be."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from localpaged.tui.memory.map_layout import MapLayout, layout_of
from localpaged.tui.memory.palette import Palette, rich_colour
from localpaged.tui.memory.views import FREE, NO_PICTURE, Picture, grouped_classes

if TYPE_CHECKING:
    from textual import events

HALF = "▀"
NOTHING, CURSOR = 255, 254

LineKey = tuple[int, bytes, bytes, int]


class BlockMap(Widget, can_focus=True):
    """Draws the picture it was given last. UI thread only.

    Invariant: `_cells` has a class for each cell of `_layout`; a line is painted anew only when
    its cells, its label or the cursor in it changed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1, 0)", "Block before", show=False),
        Binding("right,l", "move(1, 0)", "Next block", show=False),
        Binding("up,k", "move(0, -1)", "Row above", show=False),
        Binding("down,j", "move(0, 1)", "Row below", show=False),
        Binding("home,g", "go_to_end(False)", "First block", show=False),
        Binding("end,G", "go_to_end(True)", "Last block", show=False),
    ]
    ALLOW_SELECT = False

    class Moved(Message):
        """The cursor is on another block."""

    def __init__(self, *, is_ascii: bool, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._is_ascii = is_ascii
        self._picture = NO_PICTURE
        self._layout = MapLayout(columns=1, halves=1, per_cell=1)
        self._cells = b""
        self._cursor = 0
        self._palette = Palette.DARK
        self._styles: dict[tuple[int, int], Style] = {}
        self._painted: dict[int, LineKey] = {}
        self.num_painted = 0

    @property
    def per_cell(self) -> int:
        """Blocks that one cell, or half of one, stands for."""
        return self._layout.per_cell

    @property
    def cursor(self) -> int:
        """The block that the cursor means: of several in its cell the first that is used."""
        size = self._layout.per_cell
        first = self._cursor // size * size
        group = self._picture.classes[first : first + size]
        return first + next((i for i, class_ in enumerate(group) if class_ != FREE), 0)

    def show(self, picture: Picture, palette: Palette) -> None:
        """Draw this picture; lines that look as before cost nothing on the terminal."""
        if palette != self._palette or picture.swatches != self._picture.swatches:
            self._styles.clear()
            self._painted.clear()
            self.refresh()
        self._picture, self._palette = picture, palette
        self._arrange()

    def go_to(self, block: int) -> None:
        """Put the cursor on a block."""
        self._cursor = max(0, min(block, len(self._picture.classes) - 1))
        self._refresh_changed()
        self.post_message(self.Moved())

    def _arrange(self) -> None:
        num_blocks = len(self._picture.classes)
        layout = layout_of(
            num_blocks,
            width=self.content_size.width,
            height=self.content_size.height,
            has_halves=not self._is_ascii,
            blocks_per_class=self._picture.blocks_per_class,
        )
        if layout != self._layout:
            self._layout = layout
            self._painted.clear()
            self.refresh()
        self._cells = grouped_classes(self._picture.classes, layout.per_cell)
        self._cursor = max(0, min(self._cursor, num_blocks - 1))
        self._refresh_changed()

    def _refresh_changed(self) -> None:
        for y in range(self.content_size.height):
            if self._painted.get(y) != self._key(y):
                self.refresh(Region(0, y, self.content_size.width, 1))

    def _key(self, y: int) -> LineKey:
        """Everything a line depends on: its first block, its cells, the cursor in them."""
        layout = self._layout
        start, size = layout.first_cell(y), layout.columns
        upper = self._cells[start : start + size].ljust(size, bytes([NOTHING]))
        lower = upper
        if layout.halves == 2:
            lower = self._cells[start + size : start + 2 * size].ljust(size, bytes([NOTHING]))
        at = self._cursor // layout.per_cell - start
        is_here = self.has_focus and 0 <= at < layout.halves * size
        return start * layout.per_cell, upper, lower, at if is_here else -1

    def render_line(self, y: int) -> Strip:
        """Paint one row."""
        key = self._key(y)
        self._painted[y] = key
        self.num_painted += 1
        first_block, upper, lower, cursor = key
        width = self.content_size.width
        if not upper.strip(bytes([NOTHING])):
            return Strip.blank(width, self.visual_style.rich_style)
        number = first_block * self._picture.blocks_per_class
        label = f"{number:>{self._layout.label_cells - 1}} "
        segments = [Segment(label, self._label_style)]
        paint = self._letters if self._is_ascii else self._halves
        segments += paint(upper, lower, cursor)
        return Strip(segments).adjust_cell_length(width, self.visual_style.rich_style)

    @property
    def _label_style(self) -> Style:
        return self.visual_style.rich_style + Style(color=rich_colour("other", self._palette))

    def _halves(self, upper: bytes, lower: bytes, cursor: int) -> list[Segment]:
        pairs = list(zip(upper, lower, strict=True))
        if cursor >= 0:
            column = cursor % len(upper)
            above, below = pairs[column]
            if self._layout.halves == 1:
                pairs[column] = CURSOR, CURSOR
            else:
                pairs[column] = (CURSOR, below) if cursor < len(upper) else (above, CURSOR)
        return [
            Segment(HALF * len(list(run)) * self._layout.cell_width, self._style(*pair))
            for pair, run in groupby(pairs)
        ]

    def _letters(self, upper: bytes, lower: bytes, cursor: int) -> list[Segment]:
        ground = self.visual_style.rich_style
        segments: list[Segment] = []
        for column, class_ in enumerate(upper):
            letter = " " if class_ == NOTHING else self._picture.swatches[class_].letter
            style = ground if class_ == NOTHING else ground + self._colour(class_)
            reverse = Style(reverse=True) if column == cursor else Style.null()
            wide = letter.ljust(self._layout.cell_width)
            segments.append(Segment(wide, style + reverse))
        return segments

    def _style(self, upper: int, lower: int) -> Style:
        style = self._styles.get((upper, lower))
        if style is None:
            ground = self.visual_style.rich_style
            above, below = self._colour(upper).color, self._colour(lower).color
            style = Style(color=above or ground.bgcolor, bgcolor=below or ground.bgcolor)
            self._styles[upper, lower] = style
        return style

    def _colour(self, class_: int) -> Style:
        if class_ == NOTHING:
            return Style.null()
        paint = "cursor" if class_ == CURSOR else self._picture.swatches[class_].paint
        return Style(color=rich_colour(paint, self._palette))

    # what the user does

    def on_resize(self) -> None:
        """Other rows have room now."""
        self._painted.clear()
        self._arrange()

    def on_focus(self) -> None:
        """The cursor shows while the map has the focus."""
        self._refresh_changed()

    def on_blur(self) -> None:
        """The cursor shows while the map has the focus."""
        self._refresh_changed()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on the block under it."""
        offset = event.get_content_offset(self)
        if offset is not None:
            cell = self._layout.cell_at(offset.x, offset.y)
            if cell is not None and cell < len(self._cells):
                self.go_to(cell * self._layout.per_cell)

    def action_move(self, columns: int, rows: int) -> None:
        """Move the cursor by cells and rows of cells; it stays within the pool."""
        cell = self._cursor // self._layout.per_cell
        target = cell + columns + rows * self._layout.columns
        if 0 <= target < len(self._cells):
            self.go_to(target * self._layout.per_cell)

    def action_go_to_end(self, is_last: bool) -> None:
        """To the first or the last block."""
        self.go_to(len(self._picture.classes) - 1 if is_last else 0)
