"""The lines of one chat: the newest messages laid out, older ones counted and loaded on demand."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import BLANK, Line
from localpaged.tui.session import Answer, Entry, SessionModel
from localpaged.tui.transcript.cells import AnswerCell, Cell, EarlierCell, IntroCell, QuestionCell
from localpaged.tui.transcript.status import Moment
from localpaged.tui.transcript.thought_fold import Folds

WINDOW_MESSAGES = 60
WINDOW_LINES = 1_500
LOADED_MESSAGES = 20


class Document:
    """The cells of one session's window, top to bottom, a blank line after each. UI thread only.

    Invariant: `_ends[i]` is the line after cell i and its blank line; the cells are those of
    `session.entries[first_entry:]`, with a row for the rest above them if there is a rest.
    """

    def __init__(
        self, session: SessionModel, glyphs: Glyphs, width: int, folds: Folds | None = None
    ) -> None:
        """`folds` has the user's choice on reasoning; without it thoughts that are over fold."""
        self.session = session
        self._folds = folds or Folds()
        self._folds_version = self._folds.version
        self._glyphs = glyphs
        self._width = width
        self._cells: list[Cell] = []
        self._ends: list[int] = []
        self.first_entry = len(session.entries)
        if session.entries:
            self._load(WINDOW_MESSAGES, WINDOW_LINES)
        else:
            self._cells = [IntroCell(width)]
            self._measure()

    @property
    def num_lines(self) -> int:
        """How many lines there are to scroll through."""
        return self._ends[-1] if self._ends else 0

    @property
    def num_earlier(self) -> int:
        """Messages above the window."""
        return self.first_entry

    @property
    def cells(self) -> list[Cell]:
        """The window's cells, as a copy."""
        return list(self._cells)

    def line(self, y: int) -> Line:
        """The line at `y`; blank beyond the end."""
        index = self.cell_at(y)
        if index is None:
            return BLANK
        cell, offset = self._cells[index], y - self._start(index)
        return cell[offset] if offset < len(cell) else BLANK

    def cell_at(self, y: int) -> int | None:
        """The index of the cell that line `y` belongs to."""
        index = bisect_right(self._ends, y)
        return index if y >= 0 and index < len(self._cells) else None

    def lines_of(self, index: int) -> range:
        """The lines of a cell, its blank line left out."""
        start = self._start(index)
        return range(start, start + len(self._cells[index]))

    def update(self, moment: Moment) -> int:
        """Take what the session gained; return the first line that may differ."""
        has_intro = bool(self._cells) and isinstance(self._cells[0], IntroCell)
        if has_intro and self.session.entries:
            self._cells = []
            self._load(WINDOW_MESSAGES, WINDOW_LINES)
            return 0
        if self._folds_version != self._folds.version:
            return self._refold(moment)
        first = self._update_open(moment)
        known = self.first_entry + len(self._cells) - self._num_extra
        if known < len(self.session.entries):
            first = min(first, self._refresh_last_status(moment))
            for entry in self.session.entries[known:]:
                self._cells.append(self._cell(entry))
        self._measure()
        return first

    def load_earlier(self) -> int:
        """Lay out some more of the older messages; return by how many lines the rest moved."""
        before = self.num_lines
        self._load(LOADED_MESSAGES, WINDOW_LINES)
        return self.num_lines - before

    def reach(self, entry: int) -> int:
        """Lay out older messages up to that one of the session; return the index of its cell."""
        while self.first_entry > entry:
            self._load(LOADED_MESSAGES, WINDOW_LINES)
        return entry - self.first_entry + self._num_extra

    def entry_at(self, index: int) -> int:
        """Which message of the session a cell shows."""
        return self.first_entry + index - self._num_extra

    def resize(self, width: int) -> None:
        """Lay everything out in `width` cells."""
        if width == self._width:
            return
        self._width = width
        for cell in self._cells:
            cell.resize(width)
        self._measure()

    def toggle_fold(self, index: int) -> None:
        """Unfold or fold a long question."""
        cell = self._cells[index]
        if isinstance(cell, QuestionCell):
            cell.toggle_fold(self._width)
            self._measure()

    def toggle_thought(self, index: int) -> bool:
        """Unfold or fold an answer's reasoning; False when it has none."""
        cell = self._cells[index]
        has_thought = isinstance(cell, AnswerCell) and cell.toggle_thought()
        self._measure()
        return has_thought

    def _refold(self, moment: Moment) -> int:
        self._folds_version = self._folds.version
        for cell in self._cells:
            if isinstance(cell, AnswerCell):
                cell.refold()
        self.update(moment)
        return 0

    @property
    def _num_extra(self) -> int:
        return int(bool(self._cells) and isinstance(self._cells[0], EarlierCell))

    def _update_open(self, moment: Moment) -> int:
        """Update the answers that may have changed: they are the last ones."""
        first = self.num_lines
        for index in range(len(self._cells) - 1, -1, -1):
            cell = self._cells[index]
            entry = self._entry_of(index)
            if isinstance(cell, AnswerCell) and isinstance(entry, Answer):
                if cell.answer is entry and cell.is_finished:
                    break
                if cell.answer is not entry:
                    cell = self._cells[index] = AnswerCell(
                        entry, self._glyphs, self._width, self._folds
                    )
                    cell.refresh_status(moment)
                    first = min(first, self._start(index))
                else:
                    first = min(first, self._start(index) + cell.update(moment))
        return first

    def _refresh_last_status(self, moment: Moment) -> int:
        """What was the last answer cannot be continued any more; return the first such line."""
        for index in range(len(self._cells) - 1, -1, -1):
            cell = self._cells[index]
            if isinstance(cell, AnswerCell):
                cell.refresh_status(moment)
                return self._start(index)
        return self.num_lines

    def _entry_of(self, index: int) -> Entry | None:
        position = self.first_entry + index - self._num_extra
        return self.session.entries[position] if 0 <= position < len(self.session.entries) else None

    def _load(self, messages: int, lines: int) -> None:
        if not self._cells:
            self.first_entry = len(self.session.entries)
        loaded: list[Cell] = []
        num_lines = 0
        while self.first_entry and len(loaded) < messages and num_lines < lines:
            self.first_entry -= 1
            cell = self._cell(self.session.entries[self.first_entry])
            num_lines += len(cell)
            loaded.append(cell)
        kept = self._cells[self._num_extra :]
        row = [EarlierCell(self.first_entry, self._glyphs)] if self.first_entry else []
        self._cells = [*row, *reversed(loaded), *kept]
        self._measure()

    def _cell(self, entry: Entry) -> Cell:
        if isinstance(entry, Answer):
            return AnswerCell(entry, self._glyphs, self._width, self._folds)
        return QuestionCell(entry, self._glyphs, self._width)

    def _start(self, index: int) -> int:
        return self._ends[index - 1] if index else 0

    def _measure(self) -> None:
        self._ends = list(accumulate(len(cell) + 1 for cell in self._cells))
