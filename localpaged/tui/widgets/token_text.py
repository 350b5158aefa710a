"""The text of an answer as tokens, with a cursor that stands on one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView

from localpaged.chat.token_view import TokenView
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import UNDERLINE, Line, Role, Run
from localpaged.tui.paint import Painter
from localpaged.tui.tokens.layout import TokenRows, lay_out
from localpaged.tui.tokens.panel import role_of
from localpaged.tui.widgets.document_view import MARGIN_CELLS, MAX_COLUMN_CELLS

if TYPE_CHECKING:
    from textual import events
    from textual.strip import Strip


class TokenText(ScrollView, can_focus=True):
    """Draws one view. UI thread only.

    Invariant: `_rows` is the view laid out at `_column`; the cursor is one of its tokens.
    """

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Token before", show=False),
        Binding("right,l", "move(1)", "Next token", show=False),
        Binding("k", "move_row(-1)", "Row above", show=False),
        Binding("j", "move_row(1)", "Row below", show=False),
        Binding("pageup", "move_row(-10)", "Page up", show=False),
        Binding("pagedown", "move_row(10)", "Page down", show=False),
        Binding("home,g", "go_to(0)", "First token", show=False),
        Binding("end,G", "go_to(-1)", "Last token", show=False),
        Binding("n", "surprise(1)", "Next surprise", show=False),
        Binding("N", "surprise(-1)", "Surprise before", show=False),
        Binding("c", "colour", "Colours", show=False),
    ]

    class NoSurprise(Message):
        """There is no other token that was unlikely."""

    class Moved(Message):
        """The cursor stands on another token."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._view: TokenView | None = None
        self._rows = TokenRows((), ())
        self._column = 0
        self._painter: Painter | None = None
        self.cursor = 0
        self.is_coloured = True

    def show(self, view: TokenView) -> None:
        """Show another answer, the cursor on its first surprise if there is one."""
        self._view = view
        found = [i for i, token in enumerate(view.tokens) if token.is_surprising]
        self.cursor = found[0] if found else 0
        self._lay_out()
        self._go_to(self.cursor)

    def on_resize(self) -> None:
        """Wrap again."""
        self._lay_out()

    def notify_style_update(self) -> None:
        """The theme changed: paint anew."""
        super().notify_style_update()
        self._painter = None

    def render_line(self, y: int) -> Strip:
        """Paint one row."""
        if self._painter is None:
            selection = self.screen.get_visual_style("screen--selection")
            self._painter = Painter(self.visual_style, selection)
        row = y + round(self.scroll_y)
        line, selected = Line(), None
        if self._view is not None and row < len(self._rows.rows):
            line = Line(tuple(self._run(piece) for piece in self._rows.rows[row]))
            selected = self._rows.span(row, self.cursor)
        return self._painter.strip(
            line,
            width=self.scrollable_content_region.width,
            margin=MARGIN_CELLS,
            column=self._column,
            y=row,
            selected=selected,
        )

    def _run(self, piece: tuple[int, str, bool]) -> Run:
        token, text, is_mark = piece
        assert self._view is not None
        viewed = self._view.tokens[token]
        role = role_of(viewed) if self.is_coloured else Role.TEXT
        # seen without colours, too
        marks = UNDERLINE if self.is_coloured and viewed.is_surprising else 0
        return Run(text, Role.FAINT if is_mark and role is Role.TEXT else role, marks)

    # the cursor

    def action_move(self, step: int) -> None:
        """Go to a token beside this one."""
        self._go_to(self.cursor + step)

    def action_go_to(self, token: int) -> None:
        """Go to the first token, or the last."""
        self._go_to(token if token >= 0 else self._num_tokens - 1)

    def action_move_row(self, step: int) -> None:
        """Go to the token that stands above or below."""
        if not self._rows.first_rows:
            return
        row = self._rows.first_rows[self.cursor]
        span = self._rows.span(row, self.cursor)
        row = max(0, min(len(self._rows.rows) - 1, row + step))
        direction = 1 if step > 0 else -1
        while 0 <= row < len(self._rows.rows):
            token = self._rows.token_at(row, 0 if span is None else span[0])
            if token is not None:
                self._go_to(token)
                return
            row += direction

    def action_surprise(self, step: int) -> None:
        """Go to the next token that was unlikely, around the end."""
        if self._view is None:
            return
        count = self._num_tokens
        for distance in range(1, count):
            place = (self.cursor + step * distance) % count
            if self._view.tokens[place].is_surprising:
                self._go_to(place)
                return
        self.post_message(self.NoSurprise())

    def action_colour(self) -> None:
        """Show surprise in colours, or the plain text."""
        self.is_coloured = not self.is_coloured
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on a token."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        token = self._rows.token_at(offset.y + round(self.scroll_y), offset.x - MARGIN_CELLS)
        if token is not None:
            self._go_to(token)

    @property
    def _num_tokens(self) -> int:
        return 0 if self._view is None else len(self._view.tokens)

    def _go_to(self, token: int) -> None:
        if not self._num_tokens:
            return
        self.cursor = max(0, min(self._num_tokens - 1, token))
        row = self._rows.first_rows[self.cursor] if self._rows.first_rows else 0
        height = max(1, self.scrollable_content_region.height)
        top = round(self.scroll_y)
        if row < top:
            self.scroll_to(y=row, animate=False)
        elif row >= top + height:
            self.scroll_to(y=row - height + 1, animate=False)
        self.refresh()
        self.post_message(self.Moved())

    def _lay_out(self) -> None:
        room = self.scrollable_content_region.width - 2 * MARGIN_CELLS
        self._column = max(1, min(MAX_COLUMN_CELLS, room))
        if self._view is not None:
            self._rows = lay_out(self._view.tokens, self._column, self._glyphs)
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows.rows))
        self.refresh()
