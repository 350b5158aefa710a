"""The prefix tree, a branch a row: what it costs, who uses it, what sharing it saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual.binding import Binding, BindingType
from textual.message import Message

from localpaged.tui.markdown.line import Line
from localpaged.tui.memory.tree_lines import tree_line
from localpaged.tui.memory.tree_rows import BranchRow
from localpaged.tui.widgets.line_list import LineList

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.glyphs import Glyphs


R = TypeVar("R", bound=BranchRow)


class PrefixTreeView(LineList, Generic[R]):
    """Draws the rows it was given last. UI thread only.

    Invariant: `_cursor` indexes `_rows`, or there are none; it stays with its branch.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next", show=False),
        Binding("up,k", "move(-1)", "Previous", show=False),
        Binding("pagedown", "move(10)", "Page down", show=False),
        Binding("pageup", "move(-10)", "Page up", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
    ]
    CURSOR = "prefix-tree--cursor"
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR}

    class Moved(Message):
        """The cursor is on another branch."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._rows: Sequence[R] = ()
        self._label: Callable[[R], str] = lambda row: ""
        self._cursor = 0
        self._lines: dict[int, Line] = {}

    @property
    def chosen(self) -> R | None:
        """The branch at the cursor."""
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    def show(self, rows: Sequence[R], label: Callable[[R], str]) -> None:
        """Draw these rows; those that look as before cost nothing on the terminal."""
        chosen = self.chosen
        self._rows, self._label = rows, label
        self._lines.clear()
        self._cursor = max(0, min(self._cursor, len(rows) - 1))
        if chosen is not None:
            found = (i for i, row in enumerate(rows) if row.has(chosen.id))
            self._cursor = next(found, self._cursor)
        self.fit(len(rows))
        self.refresh_changed()

    def go_to(self, place: int) -> None:
        """Put the cursor on a row."""
        self._cursor = max(0, min(place, len(self._rows) - 1))
        self.reveal(self._cursor, self._cursor + 1)
        self.refresh()
        self.post_message(self.Moved())

    def line_at(self, y: int) -> Line:
        """Return a branch's row."""
        if y >= len(self._rows):
            return Line()
        if y not in self._lines:
            row = self._rows[y]
            self._lines[y] = tree_line(row, self._label(row), self._glyphs, self.row_cells)
        return self._lines[y]

    def is_cursor(self, y: int) -> bool:
        """Return whether the focus is on that branch."""
        return self.has_focus and y == self._cursor and y < len(self._rows)

    # what the user does

    def on_resize(self) -> None:
        """Rows are as wide as the view."""
        self._lines.clear()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on the row under it."""
        row = self.row_under(event)
        if row is not None and row < len(self._rows):
            self.go_to(row)

    def action_move(self, step: int) -> None:
        """Move the cursor over rows."""
        self.go_to(self._cursor + step)
