"""The list of chats, one row each: state, title, and what is running. Drawn line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.binding import Binding, BindingType
from textual.message import Message

from localpaged.plain_text import visible
from localpaged.tui.figures import grouped, percent
from localpaged.tui.fork_tree import NO_COSTS, Cost, cost_text, fork_runs
from localpaged.tui.markdown.line import STRONG, Line, Role, Run
from localpaged.tui.paint import cells_of
from localpaged.tui.session import ChatState, SessionModel
from localpaged.tui.shortened import shortened
from localpaged.tui.transcript.status import spinner
from localpaged.tui.widgets.line_list import LineList

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.glyphs import Glyphs


class _Row(NamedTuple):
    session: SessionModel | None
    heading: str = ""


class Sidebar(LineList):
    """Shows the sessions it was given last; what is chosen is posted, not done.

    Invariant: `_cursor` indexes `_rows` and is a chat's row, or there is none. `_lines` has rows as
    they are in so many cells since the last `show`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next", show=False),
        Binding("up,k", "move(-1)", "Previous", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
        Binding("enter,right,l", "choose", "Open", show=False),
        Binding("r", "rename", "Rename", show=False),
        Binding("a", "archive", "Archive", show=False),
        Binding("d,delete", "delete", "Delete", show=False),
    ]
    CURSOR = "sidebar--cursor"
    COMPONENT_CLASSES: ClassVar[set[str]] = {CURSOR}

    class Chosen(Message):
        """A chat is to be shown."""

        def __init__(self, session: SessionModel) -> None:
            super().__init__()
            self.session = session

    class RenameAsked(Chosen):
        """A chat is to be renamed."""

    class DeleteAsked(Chosen):
        """A chat is to be deleted."""

    class ArchiveAsked(Chosen):
        """A chat is to be archived."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._rows: list[_Row] = []
        self._current: SessionModel | None = None
        self._cursor = 0
        self._frame = 0
        self._costs: Mapping[str, Cost] = NO_COSTS
        self._lines: dict[tuple[int, int], Line] = {}

    def show(
        self,
        sessions: Sequence[SessionModel],
        current: SessionModel,
        *,
        frame: int,
        now: float,
        costs: Mapping[str, Cost] = NO_COSTS,
    ) -> None:
        """Draw these chats; rows that look as before cost nothing on the terminal.

        `costs` has the KV blocks of the chats that are in the engine's memory, by id.
        """
        self._costs = costs
        self._lines.clear()
        selected = self._rows[self._cursor].session if self._cursor < len(self._rows) else None
        has_moved = current is not self._current
        self._rows = _rows(sessions, now)
        self._current = current
        self._frame = frame
        wanted = current if has_moved or selected is None else selected
        self._cursor = next(
            (i for i, row in enumerate(self._rows) if row.session is wanted),
            next((i for i, row in enumerate(self._rows) if row.session is current), 0),
        )
        self.fit(len(self._rows))
        if has_moved:
            self._reveal()
        self.refresh_changed()

    def is_cursor(self, y: int) -> bool:
        """Return whether the focus is on that chat."""
        is_chat = y < len(self._rows) and self._rows[y].session is not None
        return y == self._cursor and is_chat and self.has_focus

    def line_at(self, y: int) -> Line:
        """Return a chat's row, or a heading."""
        if y >= len(self._rows):
            return Line()
        row, width = self._rows[y], self.row_cells
        if row.session is None:
            return Line((), (Run(f" {row.heading}", Role.FAINT),))
        # made once when it is compared with what was painted, and painted as it is
        line = self._lines.get((y, width))
        if line is None:
            line = self._lines[y, width] = self._chat_line(row.session, width)
        return line

    def _chat_line(self, session: SessionModel, width: int) -> Line:
        is_current = session is self._current
        note = _note(session, self._costs.get(session.id))
        fork = fork_runs(session, self._glyphs)
        glyph = self._state_glyph(session, is_current=is_current)
        room = width - 3 - cells_of(fork) - (cells_of([note]) + 1 if note.text else 0) - 1
        room = max(1, room)
        title = visible(session.title)
        if cell_len(title) > room:
            title = shortened(title, room, self._glyphs.ellipsis[:1])
        role = Role.USER if is_current or session.is_unread else Role.DIM
        runs = [
            Run(" "),
            glyph,
            Run(" "),
            *fork,
            Run(set_cell_size(title, room), role, STRONG if is_current else 0),
        ]
        if note.text:
            runs += [Run(" "), note]
        return Line((), tuple(runs))

    def _state_glyph(self, session: SessionModel, *, is_current: bool) -> Run:
        glyphs = self._glyphs
        match session.state:
            case ChatState.GENERATING | ChatState.READING:
                return Run(spinner(glyphs, self._frame), Role.ACCENT)
            case ChatState.QUEUED:
                return Run(glyphs.queued, Role.WARNING)
            case ChatState.UNREAD:
                return Run(glyphs.unread, Role.SUCCESS)
            case ChatState.ERROR:
                return Run(glyphs.error, Role.ERROR, STRONG)
            case ChatState.INTERRUPTED:
                return Run(glyphs.interrupted, Role.WARNING)
            case ChatState.IDLE:
                return Run(glyphs.current if is_current else glyphs.idle, Role.ACCENT)

    # what the user does

    def on_click(self, event: events.Click) -> None:
        """A click opens the chat under it."""
        y = self.row_under(event)
        session = self._rows[y].session if y is not None and y < len(self._rows) else None
        if y is not None and session is not None:
            self._cursor = y
            self.post_message(self.Chosen(session))

    def action_move(self, step: int) -> None:
        """Move the cursor over chats, not over headings."""
        chats = [i for i, row in enumerate(self._rows) if row.session is not None]
        if not chats:
            return
        at = chats.index(self._cursor) if self._cursor in chats else 0
        self._cursor = chats[max(0, min(len(chats) - 1, at + step))]
        self._reveal()
        self.refresh()

    def action_choose(self) -> None:
        """Open the chat at the cursor."""
        if session := self._at_cursor():
            self.post_message(self.Chosen(session))

    def action_rename(self) -> None:
        """Rename the chat at the cursor."""
        if session := self._at_cursor():
            self.post_message(self.RenameAsked(session))

    def action_archive(self) -> None:
        """Archive the chat at the cursor."""
        if session := self._at_cursor():
            self.post_message(self.ArchiveAsked(session))

    def action_delete(self) -> None:
        """Delete the chat at the cursor."""
        if session := self._at_cursor():
            self.post_message(self.DeleteAsked(session))

    def _at_cursor(self) -> SessionModel | None:
        return self._rows[self._cursor].session if self._cursor < len(self._rows) else None

    def _reveal(self) -> None:
        # upwards with the heading that may stand above
        self.reveal(self._cursor, self._cursor + 1, above=1)


def _note(session: SessionModel, cost: Cost | None) -> Run:
    """The few cells at a row's end: how far a running answer is, the memory it takes."""
    answer = session.open_answer
    if answer is None:
        return Run("" if cost is None else cost_text(session, cost), Role.FAINT)
    prefill = answer.prefill
    if session.state is ChatState.READING and prefill is not None and prefill.prompt_tokens:
        return Run(percent(prefill.computed_tokens, prefill.prompt_tokens), Role.FAINT)
    if cost is not None:
        return Run(cost_text(session, cost), Role.FAINT)
    return Run(grouped(answer.token_count) if answer.token_count else "", Role.FAINT)


def _rows(sessions: Sequence[SessionModel], now: float) -> list[_Row]:
    rows: list[_Row] = []
    heading = ""
    ages = _ages(now)
    for session in sessions:
        age = _age(session, ages)
        if age != heading and not session.depth:
            if rows:
                rows.append(_Row(None))
            rows.append(_Row(None, age))
            heading = age
        rows.append(_Row(session))
    return rows


def _ages(now: float) -> list[tuple[float, str]]:
    """Since when a chat must have been used to stand below each heading but the last one."""
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    days = ((0, "today"), (1, "yesterday"), (6, "this week"))
    return [((today - timedelta(days=ago)).timestamp(), heading) for ago, heading in days]


def _age(session: SessionModel, ages: Sequence[tuple[float, str]]) -> str:
    if session.chat is None:
        return ages[0][1]
    used_at = max(session.family_used_at, session.chat.updated_at)
    return next((heading for since, heading in ages if used_at >= since), "older")
