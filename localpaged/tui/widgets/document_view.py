"""A document of lines as one scrolling widget: no child widgets, so no layout per token.

Following: while `is_following`, new lines keep the newest in view. Only what the user does changes
it: scrolling up ends it, reaching the end by scrolling down, or `follow`, starts it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.widget import Widget

from localpaged.tui.markdown.line import Line, Role, Run
from localpaged.tui.paint import Painter
from localpaged.tui.session import SessionModel
from localpaged.tui.transcript.cells import Cell, selected_text
from localpaged.tui.transcript.document import Document
from localpaged.tui.transcript.status import Moment
from localpaged.tui.widgets.bare_rows import bare_rows
from localpaged.tui.widgets.row_scroll_bar import RowScrollBar

if TYPE_CHECKING:
    from textual.selection import Selection
    from textual.strip import Strip

    from localpaged.tui.glyphs import Glyphs

MAX_COLUMN_CELLS = 100
MARGIN_CELLS = 2
# scrolling down to this close to the end counts as reaching it
END_SLACK_LINES = 2


Look = tuple[Line, bool, bool]
"""What a row is painted from: its line, whether it is at the cursor, whether it was looked for."""


@dataclass(slots=True)
class Place:
    """A document, and where the user is in it."""

    document: Document
    scroll_y: int = 0
    is_following: bool = True


class DocumentView(ScrollView, can_focus=True):
    """Draws the document of one place. UI thread only.

    Invariant: `_strips` holds painted lines of that document at the current width.
    """

    ALLOW_SELECT = True

    class Moved(Message):
        """The view moved or grew: whether it follows, and how many lines are below it."""

        def __init__(self, *, is_following: bool, unseen_lines: int) -> None:
            super().__init__()
            self.is_following = is_following
            self.unseen_lines = unseen_lines

        def can_replace(self, message: Message) -> bool:
            """Only the latest counts."""
            return isinstance(message, DocumentView.Moved)

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        width: int = MAX_COLUMN_CELLS,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """`width` cells of text at most; 0 is all there are."""
        super().__init__(id=id)
        self._width = width
        self._glyphs = glyphs
        self._place = Place(Document(SessionModel(), glyphs, MAX_COLUMN_CELLS))
        self._marked: Cell | None = None
        self._painter: Painter | None = None
        self._strips: dict[int, tuple[Look, Strip]] = {}

    @property
    def document(self) -> Document:
        """The lines that are shown."""
        return self._place.document

    @property
    def is_following(self) -> bool:
        """Whether the newest line is kept in view."""
        return self._place.is_following

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scrollbar, made when it is first asked for."""
        if self._vertical_scrollbar is None:
            bar = RowScrollBar(name="vertical", thickness=self.scrollbar_size_vertical)
            self._vertical_scrollbar = bar
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    @property
    def column(self) -> int:
        """Cells of text in a row."""
        return self.column_in(self.scrollable_content_region.width)

    def column_in(self, cells: int) -> int:
        """Cells of text in a row of so many."""
        room = cells - 2 * MARGIN_CELLS
        return max(1, min(self._width, room) if self._width else room)

    @property
    def margin(self) -> int:
        """Empty cells left of the text."""
        return max(0, (self.scrollable_content_region.width - self.column) // 2)

    def go_to(self, place: Place, moment: Moment) -> None:
        """Show another document, where it was left."""
        self._place.scroll_y = round(self.scroll_y)
        self._place = place
        self._marked = None
        place.document.resize(self.column)
        place.document.update(moment)
        self.redraw()
        if not place.is_following:
            self.put(place.scroll_y)

    def advance(self, moment: Moment) -> None:
        """Draw what the document gained since the last call."""
        before = self.document.num_lines
        first = self.document.update(moment)
        if first >= before and self.document.num_lines == before:
            return
        first = self._first_changed(first, before)
        if self.document.num_lines != before:
            self._measure()
        top = round(self.scroll_y)
        width, height = self.scrollable_content_region.size
        # no further: rows below the document are blank, and below the view is another part
        y, bottom = max(0, first - top), min(height, max(before, self.document.num_lines) - top)
        if y < bottom:
            self.refresh(Region(0, y, width, bottom - y))

    def _first_changed(self, first: int, before: int) -> int:
        """Return which row to paint from, and forget those that are not what they were.

        A paragraph that grows is laid out anew as a whole, and mostly its last row differs. What
        is in view is compared, be it before `first`: the head of a long thought counts its tokens.
        """
        top = round(self.scroll_y)
        if self.text_selection is not None:
            return min(first, top)
        bottom = top + self.size.height
        changed = min(before, self.document.num_lines)
        for y in list(self._strips):
            # what is out of view is painted when it is seen; comparing all of it would take long
            if not top <= y < bottom:
                del self._strips[y]
            elif self._strips[y][0] != self._look(y):
                del self._strips[y]
                changed = min(changed, y)
        return changed

    def follow(self) -> None:
        """Go to the newest line and stay there."""
        self._place.is_following = True
        self.put(self.max_scroll_y)
        self._tell_moved()

    def load_earlier(self) -> int:
        """Lay out older messages above; what is in view stays. Return how many lines came."""
        moved = self.document.load_earlier()
        position = round(self.scroll_y)
        self.redraw()
        self.put(position + moved)
        return moved

    def redraw(self) -> None:
        """The lines have other places now: paint anew; a selection would mean other text."""
        self._strips.clear()
        if self.text_selection is not None:
            self.screen.clear_selection()
        self._measure()
        self.refresh()

    def put(self, y: int) -> None:
        """Scroll there; unlike what the user does this never changes the following."""
        self.scroll_target_y = self.scroll_y = max(0, min(y, self.max_scroll_y))

    # drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint rows of the viewport; those that were painted before are taken as they are."""
        rows = bare_rows(self, crop, row=self.render_line, ground=self._paint().ground)
        return super().render_lines(crop) if rows is None else rows

    def render_line(self, y: int) -> Strip:
        """Paint one row of the viewport."""
        y += round(self.scroll_y)
        selection = self.text_selection
        if selection is None and (cached := self._strips.get(y)) is not None:
            return cached[1]
        look = drawn, is_marked, is_found = self._look(y)
        selected = selection.get_span(y) if selection is not None else None
        if selected is None and is_found:
            selected = 0, -1
        width = self.scrollable_content_region.width
        column = self.column_in(width)
        margin = max(0, (width - column) // 2)
        if margin and is_marked:
            drawn = drawn.indented(Run("▎", Role.ACCENT))
            margin -= 1
            column += 1
        strip = self._paint().strip(
            drawn, width=width, margin=margin, column=column, y=y, selected=selected
        )
        if selection is None:
            self._strips[y] = look, strip
        return strip

    def notify_style_update(self) -> None:
        """The theme or a style changed: paint anew."""
        super().notify_style_update()
        self._painter = None
        self._strips.clear()

    def _paint(self) -> Painter:
        if self._painter is None:
            selection = self.screen.get_visual_style("screen--selection")
            self._painter = Painter(self.visual_style, selection)
        return self._painter

    def _look(self, y: int) -> Look:
        return self.document.line(y), self._is_marked(y), self.is_found(y)

    def _is_marked(self, y: int) -> bool:
        index = self.document.cell_at(y) if self._marked is not None else None
        if index is None or self.document.cells[index] is not self._marked:
            return False
        return y in self.document.lines_of(index)

    def is_found(self, y: int) -> bool:
        """Whether the line is what was looked for."""
        return False

    # selecting text

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as its source has it: no indents, no line breaks that wrapping made."""
        start = selection.start
        end = selection.end
        first_y = start.y if start is not None else 0
        last_y = end.y if end is not None else self.document.num_lines - 1
        lines = [self.document.line(y) for y in range(first_y, last_y + 1)]
        first = start.x if start is not None else 0
        return selected_text(lines, first, end.x if end is not None else -1), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Paint the selection."""
        self._strips.clear()
        self.refresh()

    # size and position

    def on_resize(self) -> None:
        """Wrap again and keep the same text in view."""
        anchor = None if self.is_following else self._anchor()
        self.document.resize(self.column)
        self.redraw()
        if anchor is not None:
            self.put(self._line_of(*anchor))

    def _anchor(self) -> tuple[int, float]:
        """The cell at the top of the view, and how far into it the view begins (0 to 1)."""
        y = round(self.scroll_y)
        index = self.document.cell_at(y) or 0
        lines = self.document.lines_of(index) if self.document.cells else range(1)
        return index, (y - lines.start) / max(1, len(lines))

    def _line_of(self, index: int, share: float) -> int:
        if not self.document.cells:
            return 0
        lines = self.document.lines_of(index)
        return lines.start + round(share * max(1, len(lines)))

    def _measure(self) -> None:
        """Tell the scrollbar how long the document is; the layout does not depend on it."""
        size = Size(self.scrollable_content_region.width, self.document.num_lines)
        self.set_reactive(Widget.virtual_size, size)
        self._scroll_update(size)
        if self.is_following:
            # what an empty chat says is read from its beginning
            self.put(self.max_scroll_y if self.document.session.entries else 0)
        self._tell_moved()

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:
        """Every way the user scrolls ends here: decide whether the newest line is followed."""
        if y is not None:
            if y <= 0 and self.document.num_earlier:
                y += self.load_earlier()
            if y < self.scroll_y:
                self._place.is_following = False
            elif y >= self.max_scroll_y - END_SLACK_LINES:
                self._place.is_following = True
                y = self.max_scroll_y
        options["animate"] = False
        moved = super()._scroll_to(x, y, **options)
        self._tell_moved()
        return moved

    def _tell_moved(self) -> None:
        bottom = round(self.scroll_y) + self.scrollable_content_region.height
        unseen = 0 if self.is_following else max(0, self.document.num_lines - bottom)
        self.post_message(self.Moved(is_following=self.is_following, unseen_lines=unseen))
