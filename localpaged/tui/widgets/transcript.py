"""The chat as one scrolling widget that draws lines: no child widgets, so no layout per token.

Following: while `is_following`, new lines keep the newest in view. Only what the user does changes
it: scrolling up ends it, reaching the end by scrolling down, or `follow`, starts it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.widget import Widget

from localpaged.tui.markdown.line import BLANK, Line, Role, Run
from localpaged.tui.paint import HREF, Painter
from localpaged.tui.session import Answer, SessionModel
from localpaged.tui.transcript.cells import AnswerCell, EarlierCell, QuestionCell, selected_text
from localpaged.tui.transcript.document import Document
from localpaged.tui.transcript.status import Moment

if TYPE_CHECKING:
    from textual import events
    from textual.selection import Selection
    from textual.strip import Strip

    from localpaged.tui.glyphs import Glyphs

MAX_COLUMN_CELLS = 100
MARGIN_CELLS = 2
KEPT_VIEWS = 8
# scrolling down to this close to the end counts as reaching it
END_SLACK_LINES = 2


@dataclass(slots=True)
class _View:
    document: Document
    scroll_y: int = 0
    is_following: bool = True
    seen_lines: int = 0


class Transcript(ScrollView, can_focus=True):
    """Shows one session. UI thread only.

    Invariant: `_strips` holds painted lines of the current document at the current width.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "next_message", "Next message", show=False),
        Binding("k,up", "previous_message", "Previous message", show=False),
        Binding("g", "scroll_home", "Top", show=False),
        Binding("G", "follow", "Newest", show=False),
        Binding("y", "copy_message", "Copy message", show=False),
        Binding("Y", "copy_code", "Copy code block", show=False),
        Binding("enter,i", "leave", "Back to the prompt", show=False),
    ]
    ALLOW_SELECT = True

    class LinkClicked(Message):
        """A link of an answer was clicked; nothing was opened."""

        def __init__(self, href: str) -> None:
            super().__init__()
            self.href = href

    class CopyAsked(Message):
        """The user wants text of the transcript in the clipboard."""

        def __init__(self, text: str, what: str) -> None:
            super().__init__()
            self.text = text
            self.what = what

    class Moved(Message):
        """The view moved or grew: whether it follows, and how many lines are below unseen."""

        def __init__(self, *, is_following: bool, unseen_lines: int) -> None:
            super().__init__()
            self.is_following = is_following
            self.unseen_lines = unseen_lines

        def can_replace(self, message: Message) -> bool:
            """Only the latest counts."""
            return isinstance(message, Transcript.Moved)

    class Left(Message):
        """The user is done with the transcript and wants to write."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._views: dict[int, _View] = {}
        self._view = _View(Document(SessionModel(), glyphs, MAX_COLUMN_CELLS))
        self._painter: Painter | None = None
        self._strips: dict[int, Strip] = {}
        self._moment = Moment()
        self._cursor: Answer | object | None = None
        self._code_turn = 0

    @property
    def document(self) -> Document:
        """The lines that are shown."""
        return self._view.document

    @property
    def is_following(self) -> bool:
        """Whether the newest line is kept in view."""
        return self._view.is_following

    @property
    def column(self) -> int:
        """Cells of text in a row."""
        room = self.scrollable_content_region.width - 2 * MARGIN_CELLS
        return max(1, min(MAX_COLUMN_CELLS, room))

    @property
    def margin(self) -> int:
        """Empty cells left of the text."""
        return max(0, (self.scrollable_content_region.width - self.column) // 2)

    def show(self, session: SessionModel, moment: Moment) -> None:
        """Show another session, where it was left; a new one at its end."""
        self._view.scroll_y = round(self.scroll_y)
        key = id(session)
        view = self._views.pop(key, None)
        if view is None or view.document.session is not session:
            view = _View(Document(session, self._glyphs, self.column))
        self._views[key] = view
        while len(self._views) > KEPT_VIEWS:
            del self._views[next(iter(self._views))]
        self._view = view
        self._cursor = None
        view.document.resize(self.column)
        view.document.update(moment)
        self._redraw()
        if not view.is_following:
            self._put(view.scroll_y)

    def forget(self, session: SessionModel) -> None:
        """Its transcript was read anew: lay it out again when it is shown."""
        self._views.pop(id(session), None)

    def advance(self, moment: Moment) -> None:
        """Draw what the session gained since the last call."""
        self._moment = moment
        before = self.document.num_lines
        first = self.document.update(moment)
        if first >= before and self.document.num_lines == before:
            return
        for y in [y for y in self._strips if y >= first]:
            del self._strips[y]
        if self.document.num_lines != before:
            self._measure()
        self.refresh(Region(0, max(0, first - round(self.scroll_y)), *self.size))

    def follow(self) -> None:
        """Go to the newest line and stay there."""
        self._view.is_following = True
        self._put(self.max_scroll_y)
        self._tell_moved()

    def load_earlier(self) -> int:
        """Lay out older messages above; what is in view stays. Return how many lines came."""
        moved = self.document.load_earlier()
        position = round(self.scroll_y)
        self._redraw()
        self._put(position + moved)
        return moved

    # drawing

    def render_line(self, y: int) -> Strip:
        """Paint one row of the viewport."""
        y += round(self.scroll_y)
        selection = self.text_selection
        if selection is None and (cached := self._strips.get(y)) is not None:
            return cached
        line = self.document.line(y)
        selected = selection.get_span(y) if selection is not None else None
        margin = self.margin
        if self._cursor is not None and margin and self._is_at_cursor(y):
            line = line.indented(Run("▎", Role.ACCENT))
            margin -= 1
        strip = self._paint().strip(
            line,
            width=self.scrollable_content_region.width,
            margin=margin,
            column=self.column + self.margin - margin,
            y=y,
            selected=selected,
        )
        if selection is None:
            self._strips[y] = strip
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

    def _is_at_cursor(self, y: int) -> bool:
        index = self.document.cell_at(y)
        return index is not None and self.document.cells[index] is self._cursor

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
        self._redraw()
        if anchor is not None:
            self._put(self._line_of(*anchor))

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

    def _redraw(self) -> None:
        self._strips.clear()
        self._measure()
        self.refresh()

    def _measure(self) -> None:
        """Tell the scrollbar how long the document is; the layout does not depend on it."""
        size = Size(self.scrollable_content_region.width, self.document.num_lines)
        self.set_reactive(Widget.virtual_size, size)
        self._scroll_update(size)
        if self.is_following:
            self._put(self.max_scroll_y)
        self._tell_moved()

    def _put(self, y: int) -> None:
        """Scroll there; unlike what the user does this never changes the following."""
        self.scroll_target_y = self.scroll_y = max(0, min(y, self.max_scroll_y))

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:
        """Every way the user scrolls ends here: decide whether the newest line is followed."""
        if y is not None:
            if y <= 0 and self.document.num_earlier:
                y += self.load_earlier()
            if y < self.scroll_y:
                self._view.is_following = False
            elif y >= self.max_scroll_y - END_SLACK_LINES:
                self._view.is_following = True
                y = self.max_scroll_y
        options["animate"] = False
        moved = super()._scroll_to(x, y, **options)
        self._tell_moved()
        return moved

    def _tell_moved(self) -> None:
        view = self._view
        bottom = round(self.scroll_y) + self.scrollable_content_region.height
        view.seen_lines = max(view.seen_lines, bottom)
        unseen = 0 if view.is_following else max(0, view.document.num_lines - bottom)
        self.post_message(self.Moved(is_following=view.is_following, unseen_lines=unseen))

    # what the user does

    def on_click(self, event: events.Click) -> None:
        """A link is offered, the row of earlier messages loads them, a folded message unfolds."""
        href = event.style.meta.get(HREF)
        if href:
            event.stop()
            self.post_message(self.LinkClicked(str(href)))
            return
        offset = event.get_content_offset(self)
        y = round(self.scroll_y) + (offset.y if offset is not None else -1)
        index = self.document.cell_at(y)
        if offset is None or index is None:
            return
        cell = self.document.cells[index]
        if isinstance(cell, EarlierCell):
            self.load_earlier()
        elif isinstance(cell, QuestionCell) and y == self.document.lines_of(index)[-1]:
            self.document.toggle_fold(index)
            self._redraw()

    def action_follow(self) -> None:
        """Go to the newest line."""
        self.follow()

    def action_leave(self) -> None:
        """Back to writing."""
        self._cursor = None
        self._redraw()
        self.post_message(self.Left())

    def action_next_message(self) -> None:
        """Move the message cursor down."""
        self._move_cursor(1)

    def action_previous_message(self) -> None:
        """Move the message cursor up."""
        self._move_cursor(-1)

    def action_copy_message(self) -> None:
        """Copy the message at the cursor, else the newest answer."""
        cell = self._cursor_cell()
        if cell is not None and cell.source:
            what = "answer" if isinstance(cell, AnswerCell) else "message"
            self.post_message(self.CopyAsked(cell.source, what))

    def action_copy_code(self) -> None:
        """Copy the last code block of that message; again, the one before it."""
        cell = self._cursor_cell()
        blocks = code_blocks(cell.source) if cell is not None else []
        if blocks:
            number = -1 - self._code_turn % len(blocks)
            self._code_turn += 1
            self.post_message(self.CopyAsked(blocks[number], "code block"))

    def _cursor_cell(self) -> QuestionCell | AnswerCell | None:
        cells = [c for c in self.document.cells if isinstance(c, QuestionCell | AnswerCell)]
        if self._cursor in cells:
            return cells[cells.index(self._cursor)]
        answers = [cell for cell in cells if isinstance(cell, AnswerCell)]
        return answers[-1] if answers else None

    def _move_cursor(self, step: int) -> None:
        cells = self.document.cells
        if not cells:
            return
        current = next((i for i, cell in enumerate(cells) if cell is self._cursor), len(cells))
        index = max(0, min(len(cells) - 1, current + step))
        if isinstance(cells[index], EarlierCell):
            self.load_earlier()
            return
        self._cursor = cells[index]
        self._code_turn = 0
        lines = self.document.lines_of(index)
        height = self.scrollable_content_region.height
        top = round(self.scroll_y)
        if lines.start < top or len(lines) > height:
            self._scroll_to(y=lines.start)
        elif lines.stop > top + height:
            self._scroll_to(y=lines.stop - height)
        self._strips.clear()
        self.refresh()


def code_blocks(source: str) -> list[str]:
    """The contents of the code blocks of a Markdown text, fences stripped."""
    from localpaged.tui.markdown.blocks import parser

    return [
        token.content for token in parser().parse(source) if token.type in ("fence", "code_block")
    ]


__all__ = ["BLANK", "Line", "Transcript", "code_blocks"]
