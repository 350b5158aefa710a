"""The prefix tree, a branch a row: what it costs, who uses it, what sharing it saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.message import Message

from localpaged.tui.markdown.line import Line
from localpaged.tui.memory.tree_lines import tree_line
from localpaged.tui.memory.tree_rows import BranchRow
from localpaged.tui.widgets.cursor_list import CursorList

if TYPE_CHECKING:
    from localpaged.tui.glyphs import Glyphs


R = TypeVar("R", bound=BranchRow)


class PrefixTreeView(CursorList[R]):
    """Draws the rows it was given last. UI thread only.

    Invariant: the cursor stays with its branch.
    """

    CURSOR = "prefix-tree--cursor"
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR}

    class Moved(Message):
        """The cursor is on another branch."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._label: Callable[[R], str] = lambda row: ""

    def show(self, rows: Sequence[R], label: Callable[[R], str]) -> None:
        """Draw these rows; those that look as before cost nothing on the terminal."""
        chosen = self.chosen
        self._label = label
        found = (i for i, row in enumerate(rows) if chosen is not None and row.has(chosen.id))
        self.put(rows, cursor=next(found, None))

    def go_to(self, place: int) -> None:
        """Put the cursor on a row."""
        super().go_to(place)
        self.post_message(self.Moved())

    def line_at(self, y: int) -> Line:
        """Return a branch's row."""
        if y >= len(self._rows):
            return Line()
        if y not in self._lines:
            row = self._rows[y]
            self._lines[y] = tree_line(row, self._label(row), self._glyphs, self.row_cells)
        return self._lines[y]
