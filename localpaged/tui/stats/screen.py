"""The dashboard's one screen: puts what was seen into its parts, and has the keys do things."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.css.scalar import Scalar

from localpaged.stats.protocol import CHATS, MAP, TREE
from localpaged.stats.schema import to_json
from localpaged.tui.compositor import OwnScreen
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.keys import Action
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.stats import chrome
from localpaged.tui.stats.charts import HELD, LIVE, chart_lines
from localpaged.tui.stats.chat_rows import Order
from localpaged.tui.stats.chat_table import ChatTable, TableHead
from localpaged.tui.stats.heads import head_lines
from localpaged.tui.stats.keys import GROUPS, KEYS
from localpaged.tui.stats.measures import charts_of
from localpaged.tui.stats.memory_view import MemoryView
from localpaged.tui.stats.plots import Pen
from localpaged.tui.stats.source import StatsSource, look
from localpaged.tui.stats.view import InkView
from localpaged.tui.stats.watch import Watch
from localpaged.tui.widgets.status_line import StatusLine
from localpaged.tui.workers import begin

if TYPE_CHECKING:
    from textual import events

WIDE_COLUMNS, WIDE_ROWS = 110, 32
SMALL_ROWS, TINY_ROWS = 30, 20
LEAST_TABLE_ROWS, MOST_TABLE_ROWS, SMALL_TABLE_ROWS = 5, 9, 4
_DETAILS = {
    "overview": frozenset({CHATS}),
    "chats": frozenset({CHATS}),
    "map": frozenset({CHATS, MAP}),
    "tree": frozenset({CHATS, TREE}),
}
_PARTS = {"chats": "#stats-table", "map": "#stats-map", "tree": "#stats-tree"}
CLOSING = "The numbers are defined in docs/stats.md. Esc closes."


class Owner(Protocol):
    """The application that shows a dashboard. UI thread only."""

    no_color: bool

    def tell(self, text: str, *, is_error: bool = False, for_s: float = 4.0) -> None:
        """A short message in a corner."""

    def copy_text(self, text: str, what: str) -> None:
        """Copy, and say what."""


class StatsScreen(OwnScreen[None]):
    """Looks at a source again and again, on another thread, and draws. UI thread only.

    Invariant: everything that is shown is of `watched`; at most one look is under way.
    """

    BINDINGS: ClassVar[list[BindingType]] = [action.binding for action in KEYS if action.keys]
    AUTO_FOCUS = "ChatTable"

    def __init__(
        self,
        app: Owner,
        source: StatsSource,
        *,
        watch: Watch,
        glyphs: Glyphs,
        clock_s: Callable[[], float],
        leave: Callable[[], object],
        way_out: str = "quit",
    ) -> None:
        """`leave` is what the key that ends it does, `way_out` the word for that."""
        super().__init__(classes="-overview -nothing")
        self._owner = app
        self._source = source
        self.watched = watch
        self._glyphs = glyphs
        self._clock_s = clock_s
        self._leave = leave
        self._way_out = way_out
        self._is_due = asyncio.Event()
        self.view = "overview"
        self._top = StatusLine(id="stats-top")
        self._tabs = StatusLine(id="stats-tabs")
        self._nothing = InkView(id="stats-nothing")
        self._head = InkView(id="stats-head")
        self.charts = InkView(id="stats-charts")
        self._chats = Vertical(id="stats-chats")
        self._table_head = TableHead(glyphs, id="stats-table-head")
        self.table = ChatTable(glyphs, id="stats-table")
        self._pen = Pen(glyphs, has_colours=not app.no_color)
        self.memory = MemoryView(self._pen)
        self._hints = StatusLine(id="stats-hints")

    def compose(self) -> ComposeResult:
        """The head above one view of several; one line of keys."""
        yield self._top
        yield self._tabs
        yield self._nothing
        yield self._head
        yield self.charts
        with self._chats:
            yield self._table_head
            yield self.table
        yield self.memory
        yield self._hints

    # looking

    def on_mount(self) -> None:
        """Begin to look."""
        begin(self, self._keep_looking, name="stats")

    async def _keep_looking(self) -> None:
        while True:
            if not self.watched.is_paused:
                await self.look()
            try:
                async with asyncio.timeout(self.watched.interval_s):
                    await self._is_due.wait()
            except TimeoutError:
                pass
            self._is_due.clear()

    async def look(self) -> None:
        """Look once, and draw what was seen."""
        wish = self.watched.wish(self._details)
        self.watched.take(await asyncio.to_thread(look, self._source, wish))
        self.draw()

    @property
    def _details(self) -> frozenset[str]:
        details = _DETAILS[self.view]
        is_both = self.has_class("-wide") and self.view in ("map", "tree")
        return details | {MAP, TREE} if is_both else details

    # drawing

    def draw(self) -> None:
        """Show what is known now; what looks as before costs nothing on the terminal."""
        if not self.is_there:
            return
        watch, glyphs = self.watched, self._glyphs
        cells = self.size.width - 4
        self.set_class(watch.model is None, "-nothing")
        self.set_class(watch.is_stale, "-stale")
        self._top.set(*chrome.top_runs(watch, glyphs, cells, now_s=self._clock_s()))
        self._tabs.set(*chrome.tab_runs(watch, self.view, glyphs, cells))
        self._hints.set(chrome.hint_runs(watch, self.view, cells, out=self._way_out))
        if watch.model is None or watch.snapshot is None:
            self._nothing.show(chrome.nothing_lines(watch, glyphs, max(1, cells)))
            return
        self._head.show(
            head_lines(watch.snapshot, watch.model, self._pen, self._head.content_size.width)
        )
        self._draw_view()

    def _draw_view(self) -> None:
        model, snapshot = self.watched.model, self.watched.snapshot
        assert model is not None and snapshot is not None, "there is something to draw"
        if self.charts.display:
            each = self.watched.seconds_a_column
            size = self.charts.content_size
            self.charts.show(
                chart_lines(
                    charts_of(model, self.watched.tracks, snapshot, self._pen, each=each),
                    self._pen,
                    cells=size.width,
                    rows=size.height,
                    span=lambda columns: chrome.span_words(columns * each),
                    ends=HELD if self.watched.is_stale or self.watched.is_paused else LIVE,
                )
            )
        if self.view == "overview":
            self._fit_chats(len(model.chats))
        if self.view in ("overview", "chats"):
            self.table.show(model.chats, block_bytes=model.blocks.bytes_per_block)
            self._table_head.show(self.table.order, self.table.row_cells)
        else:
            self.memory.show(model)

    def _fit_chats(self, num_chats: int) -> None:
        """Give the charts what the chats do not need; a table of a few chats does not jump."""
        rows = SMALL_TABLE_ROWS
        if self.size.height >= SMALL_ROWS:
            rows = max(LEAST_TABLE_ROWS, min(num_chats, MOST_TABLE_ROWS)) + 2
        if self._chats.styles.height != Scalar.parse(str(rows)):
            self._chats.styles.height = rows

    def on_resize(self, event: events.Resize) -> None:
        """What fits is shown."""
        width, height = event.size
        self.set_class(width >= WIDE_COLUMNS and height >= WIDE_ROWS, "-wide")
        self.set_class(height < SMALL_ROWS, "-small")
        self.set_class(height < TINY_ROWS, "-tiny")
        self.call_after_refresh(self.draw)

    # what the user does

    def action_do(self, action_id: str) -> None:
        """Do what a key of the table is for."""
        if action_id in chrome.VIEWS:
            self.show_view(action_id)
            return
        step = {
            "next_view": lambda: self._step_view(1),
            "previous_view": lambda: self._step_view(-1),
            "pause": self._pause,
            "slower": lambda: self._change_interval(1),
            "faster": lambda: self._change_interval(-1),
            "zoom": self._zoom,
            "sort": lambda: self._sort(self.table.order.next),
            "reverse": lambda: self._sort(self.table.order.turned),
            "colours": self.memory.next_colours,
            "engine": lambda: self._step_engine(1),
            "engine_before": lambda: self._step_engine(-1),
            "copy": self._copy,
            "help": self._help,
            "quit": self._leave,
        }[action_id]
        step()

    def show_view(self, view: str) -> None:
        """Show another view; what it needs is looked at at once."""
        self.view = view
        for name in chrome.VIEWS:
            self.set_class(name == view, f"-{name}")
        if view == "chats":
            self._chats.styles.height = "1fr"
        self.set_focus(self.query_one(_PARTS.get(view, "#stats-table")))
        self._is_due.set()
        self.call_after_refresh(self.draw)

    def _step_view(self, by: int) -> None:
        views = chrome.VIEWS
        self.show_view(views[(views.index(self.view) + by) % len(views)])

    def _pause(self) -> None:
        self.watched.is_paused = not self.watched.is_paused
        self._is_due.set()
        self.draw()

    def _change_interval(self, by: int) -> None:
        self.watched.change_interval(by)
        self._is_due.set()
        self.draw()

    def _zoom(self) -> None:
        self.watched.zoom()
        self.draw()

    def _sort(self, order: Order) -> None:
        self.table.sort(order)
        self.draw()

    def _step_engine(self, by: int) -> None:
        if not self.watched.step(by):
            self._owner.tell("One engine runs with one model, and this is it.")
        self._is_due.set()
        self.draw()

    def _copy(self) -> None:
        if self.watched.snapshot is not None:
            text = json.dumps(to_json(self.watched.snapshot))
            self._owner.copy_text(text, "picture")

    def _help(self) -> None:
        self.app.push_screen(HelpScreen(actions=self.keys, groups=GROUPS, closing=CLOSING))

    @property
    def keys(self) -> Sequence[Action]:
        """What the help tells."""
        return KEYS

    @on(TableHead.Clicked)
    def _sort_by(self, event: TableHead.Clicked) -> None:
        is_same = event.column.name == self.table.order.column.name
        self._sort(self.table.order.turned if is_same else Order(event.column))

    def on_click(self, event: events.Click) -> None:
        """A click on the name of a view shows it."""
        if event.widget is self._tabs:
            offset = event.get_content_offset(self._tabs)
            view = None if offset is None else chrome.view_at(offset.x)
            if view is not None:
                self.show_view(view)
