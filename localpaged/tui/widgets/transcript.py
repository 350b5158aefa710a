"""The transcript of the current chat: walks, copies and clicks over a document of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from localpaged.tui.paint import HREF
from localpaged.tui.preferences import shows_thoughts
from localpaged.tui.session import Answer, SessionModel
from localpaged.tui.transcript.cells import AnswerCell, Cell, EarlierCell, QuestionCell
from localpaged.tui.transcript.document import Document
from localpaged.tui.transcript.find import FoundLine
from localpaged.tui.transcript.status import Moment
from localpaged.tui.transcript.thought_fold import Folds
from localpaged.tui.widgets.document_view import DocumentView, Place

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.glyphs import Glyphs

KEPT_PLACES = 8


class Transcript(DocumentView):
    """Shows one session; what is copied or clicked is posted, not done. UI thread only.

    Invariant: the marked cell, if there is one, is a question or an answer of the document.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "next_message", "Next message", show=False),
        Binding("k,up", "previous_message", "Previous message", show=False),
        Binding("g", "scroll_home", "Top", show=False),
        Binding("G", "follow", "Newest", show=False),
        Binding("y", "copy_message", "Copy message", show=False),
        Binding("Y", "copy_code", "Copy code block", show=False),
        Binding("space", "toggle_fold", "Unfold or fold", show=False),
        Binding("t", "screen.do('tokens')", "Token by token", show=False),
        Binding("w", "screen.do('why')", "Why not cached", show=False),
        Binding("x", "screen.do('export')", "Export the chat", show=False),
        Binding("X", "screen.do('delete')", "Delete the chat", show=False),
        Binding("slash", "find", "Find", show=False),
        Binding("n", "find_next(1)", "Next place", show=False),
        Binding("N", "find_next(-1)", "Previous place", show=False),
        Binding("e", "branch('edit')", "Edit as a branch", show=False),
        Binding("r", "branch('regenerate')", "Answer again", show=False),
        Binding("f", "branch('fork')", "Fork here", show=False),
        Binding("left_square_bracket", "branch('older')", "Older version", show=False),
        Binding("right_square_bracket", "branch('newer')", "Newer version", show=False),
        Binding("enter,i", "leave", "Back to the prompt", show=False),
    ]

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

    class BranchAsked(Message):
        """The chat is to go another way at a message: the one at the cursor, if there is one.

        `way` is edit, regenerate, fork, older or newer.
        """

        def __init__(self, way: str, entry: int | None) -> None:
            super().__init__()
            self.way = way
            self.entry = entry

    class Left(Message):
        """The user is done with the transcript and wants to write."""

    class FindAsked(Message):
        """A text is to be looked for: another one, or the same further down (1) or up (-1)."""

        def __init__(self, step: int = 0) -> None:
            super().__init__()
            self.step = step

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        width: int,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(glyphs, width=width, id=id)
        self.folds = Folds(is_shown=shows_thoughts())
        self._places: dict[SessionModel, Place] = {}
        self._code_turn = 0
        self.found: FoundLine | None = None

    def show(self, session: SessionModel, moment: Moment) -> None:
        """Show another session, where it was left; a new one at its end."""
        place = self._places.pop(session, None)
        if place is None:
            place = Place(Document(session, self._glyphs, self.column, self.folds))
        self._places[session] = place
        while len(self._places) > KEPT_PLACES:
            del self._places[next(iter(self._places))]
        self.found = None
        self.go_to(place, moment)

    def forget(self, session: SessionModel) -> None:
        """Its transcript was read anew: lay it out again when it is shown."""
        self._places.pop(session, None)

    # a line that was looked for

    @property
    def last_in_view(self) -> FoundLine:
        """The line at the end of the view; a little further, so that it counts as above it."""
        bottom = round(self.scroll_y) + self.scrollable_content_region.height
        index = self.document.cell_at(min(bottom, self.document.num_lines - 1))
        if index is None:
            return FoundLine(0, 0)
        first = self.document.lines_of(index).start
        return FoundLine(self.document.entry_at(index), bottom - first)

    def show_found(self, line: FoundLine) -> None:
        """Scroll a line into the upper part of the view, and let it stand out."""
        self.found = line
        index = self.document.reach(line.entry)
        self._marked = self.document.cells[index]
        self._place.is_following = False
        self.redraw()
        height = self.scrollable_content_region.height
        self.put(self.document.lines_of(index).start + line.offset - height // 3)
        # with the end in view there is nothing newer to be told of
        self._place.is_following = self.scroll_y >= self.max_scroll_y
        self._tell_moved()

    def clear_found(self) -> None:
        """Nothing stands out any more."""
        self.found = None
        self.redraw()

    def is_found(self, y: int) -> bool:
        """Whether the line is what was looked for."""
        if self.found is None:
            return False
        index = self.document.cell_at(y)
        if index is None or self.document.entry_at(index) != self.found.entry:
            return False
        return y - self.document.lines_of(index).start == self.found.offset

    def action_find(self) -> None:
        """Ask for a text and find it."""
        self.post_message(self.FindAsked())

    def action_find_next(self, step: int) -> None:
        """Find the same text again."""
        self.post_message(self.FindAsked(step))

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
            self.redraw()
        elif isinstance(cell, AnswerCell) and cell.has_thought_at(
            y - self.document.lines_of(index).start
        ):
            self._toggle_thought(index)

    def advance(self, moment: Moment) -> None:
        """Draw what the chat gained; a thought folds only where it moves nothing that is read."""
        self.folds.keeps_open = not self.is_following
        super().advance(moment)

    def toggle_thoughts(self, moment: Moment) -> None:
        """Unfold or fold the reasoning of all answers; what is in view stays."""
        self.folds.toggle()
        anchor = None if self.is_following else self._anchor()
        self.document.update(moment)
        self.redraw()
        if anchor is not None:
            self.put(self._line_of(*anchor))

    def action_toggle_fold(self) -> None:
        """Unfold or fold the message at the cursor, else the newest answer's reasoning."""
        cell = self._chosen_cell()
        if cell is None:
            return
        index = self.document.cells.index(cell)
        if isinstance(cell, QuestionCell):
            self.document.toggle_fold(index)
            self.redraw()
        else:
            self._toggle_thought(index)

    def _toggle_thought(self, index: int) -> None:
        if self.document.toggle_thought(index):
            self.redraw()

    # other ways of the chat

    @property
    def marked_entry(self) -> int | None:
        """Which message of the session has the cursor."""
        cells = self.document.cells
        found = (i for i, cell in enumerate(cells) if cell is self._marked)
        index = next(found, None)
        return None if index is None else self.document.entry_at(index)

    @property
    def top_entry(self) -> int:
        """Which message is at the top of the view."""
        index = self.document.cell_at(round(self.scroll_y)) or 0
        return max(0, self.document.entry_at(index))

    def row_of(self, entry: int) -> int:
        """In which row of the view a message begins; it may be above or below the view."""
        index = self.document.reach(entry)
        return self.document.lines_of(index).start - round(self.scroll_y)

    def mark_entry(self, entry: int, *, row: int | None = None) -> None:
        """Give a message the cursor; with `row` it begins in that row of the view."""
        index = self.document.reach(entry)
        self._marked = self.document.cells[index]
        self._code_turn = 0
        if row is not None:
            self._measure()
            self._place.is_following = False
            self.put(self.document.lines_of(index).start - row)
        self.redraw()

    def action_branch(self, way: str) -> None:
        """Go another way at the message at the cursor."""
        self.post_message(self.BranchAsked(way, self.marked_entry))

    def action_follow(self) -> None:
        """Go to the newest line."""
        self.follow()

    def action_leave(self) -> None:
        """Back to writing."""
        self._marked = None
        self.found = None
        self.redraw()
        self.post_message(self.Left())

    def action_next_message(self) -> None:
        """Move the message cursor down."""
        self._move_cursor(1)

    def action_previous_message(self) -> None:
        """Move the message cursor up."""
        self._move_cursor(-1)

    @property
    def chosen_answer(self) -> Answer | None:
        """The marked answer, else that to the marked question, else the newest one."""
        cells = self.document.cells
        start = cells.index(self._marked) if self._marked in cells else len(cells)
        below = (cell.answer for cell in cells[start:] if isinstance(cell, AnswerCell))
        return next(below, self.document.session.last_answer)

    def action_copy_message(self) -> None:
        """Copy the message at the cursor, else the newest answer."""
        cell = self._chosen_cell()
        if cell is not None and cell.source:
            what = "answer" if isinstance(cell, AnswerCell) else "message"
            self.post_message(self.CopyAsked(cell.source, what))

    def action_copy_code(self) -> None:
        """Copy the last code block of that message; again, the one before it."""
        # see AnswerCell
        from localpaged.tui.markdown.blocks import code_blocks

        cell = self._chosen_cell()
        blocks = code_blocks(cell.source) if cell is not None else []
        if blocks:
            number = -1 - self._code_turn % len(blocks)
            self._code_turn += 1
            self.post_message(self.CopyAsked(blocks[number], "code block"))

    def _chosen_cell(self) -> Cell | None:
        """The marked message, else the newest answer."""
        cells = self.document.cells
        if self._marked in cells:
            return self._marked
        return next((cell for cell in reversed(cells) if isinstance(cell, AnswerCell)), None)

    def _move_cursor(self, step: int) -> None:
        cells = self.document.cells
        if not self.document.session.entries:
            return  # what is shown of an empty chat is no message
        current = next((i for i, cell in enumerate(cells) if cell is self._marked), len(cells))
        index = max(0, min(len(cells) - 1, current + step))
        if isinstance(cells[index], EarlierCell):
            self.load_earlier()
            return
        self._marked = cells[index]
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
