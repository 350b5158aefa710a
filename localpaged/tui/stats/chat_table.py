"""The table of chats: scrolls, and is sorted by any of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from localpaged.stats.schema import ChatStats
from localpaged.tui.markdown.line import Line, Role, Run
from localpaged.tui.stats.chat_rows import Column, Order, chat_line, column_at, header_line
from localpaged.tui.widgets.line_list import LineList
from localpaged.tui.widgets.status_line import StatusLine

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.glyphs import Glyphs


NO_CHATS = Line((Run("  No chat has KV memory here yet.", Role.FAINT),))


class TableHead(StatusLine):
    """The names of the columns, above the rows and as wide. UI thread only."""

    class Clicked(Message):
        """The name of a column was clicked."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._cells = 0

    def show(self, order: Order, cells: int) -> None:
        """Tell the columns of rows of `cells`, and by which of them rows are sorted."""
        self._cells = cells
        self.set(header_line(order, self._glyphs, cells).runs)

    def on_click(self, event: events.Click) -> None:
        """A click on a name sorts by it."""
        offset = event.get_content_offset(self)
        column = None if offset is None else column_at(offset.x, self._cells)
        if column is not None:
            self.post_message(self.Clicked(column))


class ChatTable(LineList):
    """Draws the chats it was given last, in the order that was chosen. UI thread only.

    Invariant: `_chats` are in the order `order`. The cursor is in the first row until the user
    moves it, then it stays with its chat.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next", show=False),
        Binding("up,k", "move(-1)", "Previous", show=False),
        Binding("pagedown", "move(10)", "Page down", show=False),
        Binding("pageup", "move(-10)", "Page up", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
    ]
    CURSOR = "chat-table--cursor"
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR}

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._chats: Sequence[ChatStats] = ()
        self._block_bytes = 0
        self.order = Order()
        self._cursor = 0
        self._is_placed = False
        self._lines: dict[int, Line] = {}

    @property
    def chosen(self) -> ChatStats | None:
        """The chat at the cursor."""
        return self._chats[self._cursor] if self._cursor < len(self._chats) else None

    def show(self, chats: Sequence[ChatStats], *, block_bytes: int) -> None:
        """Draw these chats; rows that look as before cost nothing on the terminal."""
        chosen = self.chosen
        self._chats, self._block_bytes = self.order.of(chats), block_bytes
        self._lines.clear()
        self._cursor = max(0, min(self._cursor, len(self._chats) - 1))
        if chosen is not None and self._is_placed:
            found = (i for i, chat in enumerate(self._chats) if chat.chat_id == chosen.chat_id)
            self._cursor = next(found, self._cursor)
        self.fit(len(self._chats))
        self.refresh_changed()

    def sort(self, order: Order) -> None:
        """Put the chats in another order; the cursor goes to the first row."""
        self.order = order
        self._is_placed = False
        self._cursor = 0
        self.scroll_to(y=0, animate=False)
        self.show(self._chats, block_bytes=self._block_bytes)

    def line_at(self, y: int) -> Line:
        """Return a chat's row."""
        if y >= len(self._chats):
            return Line() if y or self._chats else NO_CHATS
        if y not in self._lines:
            self._lines[y] = chat_line(
                self._chats[y], self._glyphs, self.row_cells, block_bytes=self._block_bytes
            )
        return self._lines[y]

    def is_cursor(self, y: int) -> bool:
        """Return whether the focus is on that chat."""
        return self.has_focus and y == self._cursor and y < len(self._chats)

    # what the user does

    def on_resize(self) -> None:
        """Rows are as wide as the view."""
        self._lines.clear()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on the row under it."""
        row = self.row_under(event)
        if row is not None and row < len(self._chats):
            self._go_to(row)

    def action_move(self, step: int) -> None:
        """Move the cursor over rows."""
        self._go_to(self._cursor + step)

    def _go_to(self, place: int) -> None:
        self._is_placed = True
        self._cursor = max(0, min(place, len(self._chats) - 1))
        self.reveal(self._cursor, self._cursor + 1)
        self.refresh()
