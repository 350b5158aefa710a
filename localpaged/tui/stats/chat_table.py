"""The table of chats: scrolls, and is sorted by any of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.message import Message

from localpaged.stats.schema import ChatStats
from localpaged.tui.markdown.line import Line, Role, Run
from localpaged.tui.stats.chat_rows import Column, Order, chat_line, column_at, header_line
from localpaged.tui.widgets.cursor_list import CursorList
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


class ChatTable(CursorList[ChatStats]):
    """Draws the chats it was given last, in the order that was chosen. UI thread only.

    Invariant: the rows are in the order `order`. The cursor is in the first row until the user
    moves it, then it stays with its chat.
    """

    CURSOR = "chat-table--cursor"
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR}

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._block_bytes = 0
        self.order = Order()
        self._is_placed = False

    def show(self, chats: Sequence[ChatStats], *, block_bytes: int) -> None:
        """Draw these chats; rows that look as before cost nothing on the terminal."""
        chosen = self.chosen if self._is_placed else None
        rows = self.order.of(chats)
        self._block_bytes = block_bytes
        found = (i for i, chat in enumerate(rows) if chosen and chat.chat_id == chosen.chat_id)
        self.put(rows, cursor=next(found, None))

    def sort(self, order: Order) -> None:
        """Put the chats in another order; the cursor goes to the first row."""
        self.order = order
        self._is_placed = False
        self._cursor = 0
        self.scroll_to(y=0, animate=False)
        self.show(self._rows, block_bytes=self._block_bytes)

    def go_to(self, place: int) -> None:
        """Put the cursor on a chat, which it stays with."""
        self._is_placed = True
        super().go_to(place)

    def line_at(self, y: int) -> Line:
        """Return a chat's row."""
        if y >= len(self._rows):
            return Line() if y or self._rows else NO_CHATS
        if y not in self._lines:
            self._lines[y] = chat_line(
                self._rows[y], self._glyphs, self.row_cells, block_bytes=self._block_bytes
            )
        return self._lines[y]
