"""The blocks screen: what lies in KV memory, whose it is, and what sharing it saves."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from localpaged.engine.inspection import BlockTokens, Inspection
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import LocalPagedError
from localpaged.tui.commands.memory_deeds import MemoryDeeds
from localpaged.tui.glyphs import UNICODE, Glyphs
from localpaged.tui.markdown.line import Line
from localpaged.tui.memory.details import block_lines, branch_lines, group_line
from localpaged.tui.memory.headlines import head_runs, total_runs
from localpaged.tui.memory.hints import hint_runs, nothing_runs, tab_runs
from localpaged.tui.memory.tree_rows import TreeRow, label_of, row_of_block, tree_rows
from localpaged.tui.memory.views import ChatColours, View, picture
from localpaged.tui.paint import content_of
from localpaged.tui.widgets.block_map import BlockMap
from localpaged.tui.widgets.map_legend import MapLegend
from localpaged.tui.widgets.prefix_tree import PrefixTreeView
from localpaged.tui.widgets.status_line import StatusLine
from localpaged.tui.workspace import Changes, Workspace

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.app import LocalPagedApp

INSPECT_S = 0.2
WIDE_COLUMNS, WIDE_ROWS = 110, 30
LABEL_TOKENS = 24


class BlocksScreen(Screen[str | None]):
    """Looks at one model's memory, a few times a second, only while it is shown. UI thread only.

    Dismisses with the id of a chat to go to, or None. Invariant: at most one inspection is asked
    for at a time, and everything that is shown is of `_seen`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f3,q", "leave", "Back", show=False, priority=True),
        Binding("tab,shift+tab", "other_part", "Map or tree", show=False, priority=True),
        Binding("m", "next_view", "Next view", show=False),
        Binding("p", "pin", "Pin or unpin", show=False),
        Binding("x", "evict", "Evict", show=False),
        Binding("o", "next_model", "Next model", show=False),
        Binding("enter", "go_to_chat", "Go to the chat", show=False, priority=True),
    ]
    AUTO_FOCUS = "BlockMap"

    def __init__(self, app: LocalPagedApp, workspace: Workspace, glyphs: Glyphs) -> None:
        super().__init__()
        self._owner = app
        self._workspace = workspace
        self._memory = app.service.memory
        self._glyphs = glyphs
        self._is_ascii = glyphs is not UNICODE or app.no_color
        self._model = ""
        self._models = self._loaded_models()
        self._view = View.CHAT
        self._colours = ChatColours()
        self._seen = Inspection()
        self._rows: list[TreeRow] = []
        self._snapshot = EngineSnapshot()
        self._is_asked = False
        self._due_s = 0.0
        self._tokens: BlockTokens | None = None
        self._spelled: dict[tuple[int, ...], str] = {}
        self._deeds = MemoryDeeds(app, self._look_again)
        self._top = StatusLine(id="blocks-top")
        self._tabs = StatusLine(id="blocks-tabs")
        self._nothing = StatusLine(id="blocks-nothing")
        self._map = BlockMap(is_ascii=self._is_ascii, id="block-map")
        self._legend = MapLegend(is_ascii=self._is_ascii, id="map-legend")
        self._tree = PrefixTreeView(glyphs, id="prefix-tree")
        self._details = Static(id="block-details")
        self._total = StatusLine(id="blocks-total")
        self._hints = StatusLine(id="blocks-hints")

    def compose(self) -> ComposeResult:
        """The map above the tree, details beside it; on a small screen one of the two."""
        yield self._top
        yield self._tabs
        yield self._nothing
        with Vertical(id="map-part"):
            yield self._map
            yield self._legend
        with Horizontal(id="tree-part"):
            yield self._tree
            yield self._details
        yield self._total
        yield self._hints

    # looking

    def beat(self, snapshot: EngineSnapshot, changes: Changes) -> bool:
        """Ask for another look when it is time; return whether answers are being made."""
        self._snapshot = self._owner.service.snapshot(self._model)
        if self._workspace.engine.ready is None or self._workspace.engine.failure is not None:
            self._show()
            return self._workspace.engine.failure is None
        if not self._is_asked and monotonic() >= self._due_s:
            self._is_asked = True
            self._due_s = monotonic() + INSPECT_S
            self._owner.awaited.when_done(
                self._memory.inspect(self._model), self._take, self._cannot_look
            )
        return bool(self._workspace.running)

    def _look_again(self) -> None:
        """Something was done: see at once what it changed."""
        self._due_s = 0.0
        self._owner.nudge()

    def _take(self, seen: Inspection) -> None:
        self._is_asked = False
        if not self.is_mounted or seen == self._seen:
            return
        self._seen = seen
        self._rows = tree_rows(seen)
        self._colours.follow(seen)
        self._show()
        self._ask_tokens()

    def _cannot_look(self, error: LocalPagedError) -> None:
        # a model that was unloaded, or an engine that ended: the first line tells the latter
        self._is_asked = False
        self._model = ""

    # drawing

    def _show(self) -> None:
        engine, seen, glyphs = self._workspace.engine, self._seen, self._glyphs
        is_there = engine.ready is not None and engine.failure is None
        self.set_class(not is_there, "-nothing")
        self._nothing.set(nothing_runs(engine, glyphs))
        is_wide = self.has_class("-wide")
        self._top.set(*head_runs(seen, glyphs, is_wide=is_wide))
        self._tabs.set(*tab_runs(is_tree=self.has_class("-tree"), glyphs=glyphs))
        is_dark = self.app.current_theme.dark
        shown = picture(seen, self._view, self._colours, self._title_of)
        self._map.show(shown, is_dark=is_dark)
        self._legend.show(shown, self._view, is_dark=is_dark)
        self._tree.show(self._rows, self._label_of)
        self._total.set(total_runs(seen, self._snapshot, glyphs, is_wide=is_wide))
        self._hints.set(hint_runs(self._view, has_models=len(self._models) > 1))
        self._show_details()

    def _show_details(self) -> None:
        cells = max(20, self._details.content_size.width)
        lines = self._detail_lines(cells)[: max(1, self._details.content_size.height)]
        text = Content("\n").join([content_of(line.prefix + line.runs) for line in lines])
        self._details.update(text, layout=False)

    def _detail_lines(self, cells: int) -> list[Line]:
        seen = self._seen
        if not self._is_map_chosen:
            row = self._tree.chosen
            if row is None:
                return []
            text = self._spell(row.top.first_tokens)
            return branch_lines(seen, row, text, title_of=self._title_of, cells=cells)
        block = self._map.cursor
        tokens = self._tokens if self._tokens and self._tokens.block == block else None
        text = self._spell(tokens.token_ids) if tokens is not None else ""
        lines = block_lines(seen, block, tokens, text, title_of=self._title_of, cells=cells)
        if self._map.per_cell > 1:
            lines.insert(1, group_line(seen, block, self._map.per_cell))
        return lines

    def _ask_tokens(self) -> None:
        """Ask for the text of the block at the cursor, of that one alone."""
        block = self._map.cursor
        if self._is_map_chosen and block < self._seen.num_blocks and self._seen.states[block]:
            self._owner.awaited.when_done(
                self._memory.tokens(block, self._model), self._take_tokens, lambda error: None
            )

    def _take_tokens(self, tokens: BlockTokens | None) -> None:
        if self.is_mounted and tokens != self._tokens:
            self._tokens = tokens
            self._show_details()

    def _title_of(self, chat_id: str) -> str:
        session = self._workspace.find(chat_id)
        return "a chat that is not listed" if session is None else session.title

    def _label_of(self, row: TreeRow) -> str:
        return label_of(row, self._title_of, lambda node: self._spell(node.first_tokens))

    def _spell(self, ids: tuple[int, ...]) -> str:
        if ids not in self._spelled:
            self._spelled[ids] = self._memory.spell(ids, self._model)
        return self._spelled[ids]

    @property
    def _is_map_chosen(self) -> bool:
        return self.focused is not self._tree

    # size

    def on_resize(self, event: events.Resize) -> None:
        """Both parts where there is room, else one of them."""
        width, height = event.size
        self.set_class(width >= WIDE_COLUMNS and height >= WIDE_ROWS, "-wide")
        self.call_after_refresh(self._show)

    # what the user does

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)

    def action_other_part(self) -> None:
        """The map or the tree; on a small screen the other one is shown."""
        self.toggle_class("-tree")
        self.set_focus(self._tree if self.has_class("-tree") else self._map)
        if self.has_class("-tree"):
            place = row_of_block(self._rows, self._seen, self._map.cursor)
            if place is not None:
                self._tree.go_to(place)
        self.call_after_refresh(self._show)

    def action_next_view(self) -> None:
        """What the colours tell: state, chat, references, age."""
        self._view = self._view.next
        self._show()

    def action_next_model(self) -> None:
        """The memory of another loaded model."""
        self._models = self._loaded_models()
        if len(self._models) < 2:
            self._owner.tell("There is one model loaded, and this is its memory.")
            return
        at = self._models.index(self._model) if self._model in self._models else 0
        self._model = self._models[(at + 1) % len(self._models)]
        self._spelled.clear()
        self._look_again()

    def _loaded_models(self) -> list[str]:
        """The models whose memory can be looked at, the default one first and without a name."""
        try:
            choices = self._owner.service.models()
        except LocalPagedError as error:
            self._owner.tell_error(error)
            return [""]
        return ["" if choice.is_default else choice.name for choice in choices if choice.is_loaded]

    def action_pin(self) -> None:
        """Pin the branch at the cursor, or let go what pins it."""
        row = self._chosen_row()
        if row is not None:
            self._deeds.pin_or_unpin(row, self._model)

    def action_evict(self) -> None:
        """Give up what nobody uses of the branch, or from the block at the cursor on."""
        row = self._chosen_row()
        if row is None:
            return
        node, offset = row.top, 0
        if self._is_map_chosen:
            place = self._seen.place(self._map.cursor)
            assert place is not None, "a block of a branch has a place"
            node, offset = place
        self._deeds.evict(node, offset, self._seen, self._model)

    def action_go_to_chat(self) -> None:
        """Leave for the chat that the block or the branch is of."""
        self._deeds.choose_chat(self._chats_at_cursor(), self._title_of, self.dismiss)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without a model there is nothing to act on."""
        needs_blocks = action in ("pin", "evict", "next_model", "next_view", "go_to_chat")
        return not needs_blocks or self._seen.num_blocks > 0

    def _chosen_row(self) -> TreeRow | None:
        if not self._is_map_chosen:
            return self._tree.chosen
        place = row_of_block(self._rows, self._seen, self._map.cursor)
        if place is None:
            self._owner.tell("This block is not in the prefix tree: it is free or not full yet.")
            return None
        return self._rows[place]

    def _chats_at_cursor(self) -> list[str]:
        if not self._is_map_chosen:
            row = self._tree.chosen
            return list(row.top.chats) if row is not None else []
        block = self._map.cursor
        holders = [table.chat_id for table in self._seen.holders(block)]
        place = self._seen.place(block)
        return list(dict.fromkeys([*holders, *(place[0].chats if place is not None else ())]))

    @on(BlockMap.Moved)
    @on(PrefixTreeView.Moved)
    def _moved(self) -> None:
        self._show_details()
        self._ask_tokens()

    def on_descendant_focus(self) -> None:
        """The details are of what has the focus."""
        self.set_class(self.focused is self._tree, "-tree")
        self._show_details()
        self._ask_tokens()
