"""The history screen: every chat by scope, every text by searching, and deeds for a chat."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from localpaged.errors import LocalPagedError
from localpaged.store.scope import ChatScope
from localpaged.tui.compositor import OwnScreen
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.hint_line import LATER, SOON, Hint, fitted_runs, help_hint
from localpaged.tui.history.items import HistoryItem, item_lines, item_of_hit
from localpaged.tui.keys import IN_HISTORY, screen_bindings
from localpaged.tui.markdown.line import STRONG, Line, Role, Run
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.widgets.hit_list import HitList
from localpaged.tui.widgets.line_input import LineInput
from localpaged.tui.widgets.status_line import StatusLine
from localpaged.tui.workers import begin

if TYPE_CHECKING:
    from textual.timer import Timer

    from localpaged.chat.history import ChatHistory
    from localpaged.tui.commands.history_deeds import HistoryDeeds

# a search begins when nothing was typed for so long
DEBOUNCE_S = 0.12
# so many chats are listed: rows are made at once
MAX_CHATS = 1_000
SCOPES = (ChatScope.ALL, ChatScope.ARCHIVED, ChatScope.DELETED)
IN_INPUT = (("Enter", "open"), ("Up Down", "choose"), ("Tab", "the list's keys"), ("^F", "filter"))
ON_LIST = (
    *(("Enter", "open"), ("r", "rename"), ("a", "archive"), ("d", "delete"), ("x", "export")),
    *(("f", "filter"), ("/", "search"), ("Esc", "back")),
)


@dataclass(frozen=True, slots=True)
class _Found:
    items: tuple[HistoryItem, ...] = ()
    is_cut: bool = False
    num_unindexed: int = 0


class _Wanted(NamedTuple):
    query: str
    scope: ChatScope
    # grows when the same question has another answer
    version: int = 0


class HistoryScreen(OwnScreen[HistoryItem | None]):
    """Dismisses with the item to open, or None. UI thread only; it reads on another.

    Invariant: at most one reading is under way; when it is done and `_wanted` has changed
    meanwhile, the next one begins. `_shown` is what the list was made from. `_is_open_asked`: the
    first hit of what is read is to be opened.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False, priority=True),
        # the key that opened it, whichever the user gave it
        Binding("f6", "leave", "Back", id="browse", show=False, priority=True),
        *screen_bindings(IN_HISTORY),
        Binding("enter", "open", "Open", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "move(8)", "Page down", show=False, priority=True),
        Binding("pageup", "move(-8)", "Page up", show=False, priority=True),
        Binding("tab,shift+tab", "other_part", "Search or list", show=False, priority=True),
        Binding("ctrl+f", "next_scope", "Filter", show=False, priority=True),
        Binding("f", "next_scope", "Filter", show=False),
        Binding("slash,i", "other_part", "Search", show=False),
        Binding("q", "leave", "Back", show=False),
        Binding("r", "deed('rename')", "Rename", show=False),
        Binding("a", "deed('archive')", "Archive", show=False),
        Binding("d,delete", "deed('delete')", "Delete or restore", show=False),
        Binding("x", "deed('export')", "Export", show=False),
    ]
    AUTO_FOCUS = "LineInput"

    def __init__(
        self, history: ChatHistory, deeds: HistoryDeeds, glyphs: Glyphs, *, query: str = ""
    ) -> None:
        super().__init__()
        self._history = history
        self._deeds = deeds
        self._glyphs = glyphs
        self._wanted = _Wanted(query, ChatScope.ALL)
        self._shown: _Wanted | None = None
        self._found = _Found()
        self._is_reading = False
        self._is_open_asked = False
        self._timer: Timer | None = None
        self._head = StatusLine(id="history-head")
        self._list = HitList(id="history-list")
        self._note = StatusLine(id="history-note")
        self._hints = StatusLine(id="history-hints")

    def compose(self) -> ComposeResult:
        """Scope, input, list, keys."""
        yield self._head
        yield LineInput(
            self._wanted.query,
            placeholder="Search the texts of all chats",
            compact=True,
            select_on_focus=False,
            id="history-input",
        )
        yield self._list
        yield self._note
        yield self._hints

    def on_mount(self) -> None:
        """Show what there is."""
        self._read()

    def on_resize(self) -> None:
        """Rows are as wide as the list, once it is laid out."""
        self.call_after_refresh(self._draw)

    def on_descendant_focus(self) -> None:
        """The bottom line tells the keys of what has the focus."""
        self._draw_chrome()

    # what the user does

    def on_input_changed(self, event: LineInput.Changed) -> None:
        """Typing searches, a moment after the last key."""
        if event.value == self._wanted.query:
            return
        self._wanted = self._wanted._replace(query=event.value)
        self._is_open_asked = False
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(DEBOUNCE_S, self._read)

    def action_move(self, step: int) -> None:
        """Move the cursor of the list, wherever the focus is."""
        self._list.action_move(step)

    def action_other_part(self) -> None:
        """From the input to the list, and back."""
        is_in_list = self.focused is self._list
        self.set_focus(self.query_one(LineInput) if is_in_list else self._list)

    def action_next_scope(self) -> None:
        """All, archived, deleted."""
        scope = SCOPES[(SCOPES.index(self._wanted.scope) + 1) % len(SCOPES)]
        self._wanted = self._wanted._replace(scope=scope)
        self._read()

    def action_open(self) -> None:
        """Leave with the item at the cursor; of what is still searched for, with the first hit."""
        if not self._is_up_to_date:
            self._is_open_asked = True
            self._read()
        elif self._found.items:
            self.dismiss(self._found.items[self._list.cursor])

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)

    def action_help(self) -> None:
        """Every key, those of this screen first."""
        self.app.push_screen(HelpScreen("history"))

    def action_deed(self, name: str) -> None:
        """Do something with the chat at the cursor, then look again."""
        if self._found.items:
            self._deeds.run(name, self._found.items[self._list.cursor].chat, self.look_again)

    @on(HitList.Moved)
    def _moved(self) -> None:
        self._draw_chrome()

    @on(HitList.Chosen)
    def _chosen(self) -> None:
        self.action_open()

    # reading

    def look_again(self) -> None:
        """Something was done: the list may be another."""
        self._wanted = self._wanted._replace(version=self._wanted.version + 1)
        self._read()

    @property
    def _is_up_to_date(self) -> bool:
        return self._shown == self._wanted

    def _read(self) -> None:
        if not self._is_reading and not self._is_up_to_date:
            self._is_reading = True
            begin(self, self._read_wanted, name="history")

    async def _read_wanted(self) -> None:
        try:
            while not self._is_up_to_date:
                wanted = self._wanted
                found = await asyncio.to_thread(self._look, wanted)
                is_new = self._shown is None or self._shown[:2] != wanted[:2]
                self._shown, self._found = wanted, found
                self._draw(cursor=0 if is_new else self._list.cursor)
            if self._is_open_asked:
                self._is_open_asked = False
                self.action_open()
        except LocalPagedError as error:
            self._shown, self._found = self._wanted, _Found()
            self._draw()
            self._deeds.tell_error(error)
        finally:
            self._is_reading = False

    def _look(self, wanted: _Wanted) -> _Found:
        if not wanted.query.strip():
            chats = self._history.chats(wanted.scope)
            items = tuple(HistoryItem(chat) for chat in chats[:MAX_CHATS])
            return _Found(items, is_cut=len(chats) > MAX_CHATS)
        result = self._history.search(wanted.query, scope=wanted.scope)
        items = tuple(item_of_hit(hit) for hit in result.hits)
        return _Found(items, result.is_cut, result.num_unindexed)

    # drawing

    def _draw(self, cursor: int | None = None) -> None:
        width, now = self._list.row_cells, time()
        items = self._found.items
        befores = (None, *items)
        rows: list[list[Line]] = [
            item_lines(item, before, self._glyphs, width, now=now)
            for item, before in zip(items, befores, strict=False)
        ]
        self._list.show(rows, cursor=self._list.cursor if cursor is None else cursor)
        self._draw_chrome()

    def _draw_chrome(self) -> None:
        tabs: list[Run] = []
        for scope in SCOPES:
            is_on = scope is self._wanted.scope
            role, marks = (Role.USER, STRONG) if is_on else (Role.FAINT, 0)
            tabs.append(Run(f"  {scope}", role, marks))
        self._head.set([Run("History", Role.ACCENT, STRONG)], tabs)
        self._note.set(self._note_runs())
        keys = ON_LIST if self.focused is self._list else IN_INPUT
        hints = [Hint(k, self._what(what), SOON if k == "Esc" else LATER) for k, what in keys]
        self._hints.set(fitted_runs([*hints, help_hint()], self._hints.content_size.width))

    def _what(self, what: str) -> str:
        items = self._found.items
        chat = items[self._list.cursor].chat if self._list.cursor < len(items) else None
        if what == "delete" and self._wanted.scope is ChatScope.DELETED:
            return "restore"
        if what == "archive" and chat is not None and chat.archived_at is not None:
            return "unarchive"
        return what

    def _note_runs(self) -> list[Run]:
        number = len(self._found.items)
        is_search = bool(self._wanted.query.strip())
        what = "hit" if is_search else "chat"
        text = f"{grouped(number)} {what}" if number == 1 else f"{grouped(number)} {what}s"
        if not number:
            text = "Nothing found" if is_search else "No chats"
        elif self._found.is_cut and is_search:
            text = f"The best {text}; add a word to narrow them"
        elif self._found.is_cut:
            text = f"The latest {text}; searching finds the others"
        runs = [Run(text, Role.DIM)]
        if self._found.num_unindexed:
            left = grouped(self._found.num_unindexed)
            runs.append(Run(f"  {left} older messages are not indexed yet", Role.WARNING))
        return runs
