"""The blocks screen: what lies in KV memory, whose it is, and what sharing it saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.tui.commands.memory_deeds import MemoryDeeds
from localpaged.tui.compositor import OwnScreen
from localpaged.tui.glyphs import UNICODE, Glyphs
from localpaged.tui.keys import IN_BLOCKS, screen_bindings
from localpaged.tui.markdown.line import Line
from localpaged.tui.memory.details import block_lines, branch_lines, group_line
from localpaged.tui.memory.headlines import head_runs, total_runs
from localpaged.tui.memory.hints import hint_runs, nothing_runs, tab_runs
from localpaged.tui.memory.look import MemoryLook
from localpaged.tui.memory.loss import loss_of
from localpaged.tui.memory.palette import palette_of
from localpaged.tui.memory.tree_lines import signs_of
from localpaged.tui.memory.tree_rows import TreeRow
from localpaged.tui.memory.views import View
from localpaged.tui.paint import content_of
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.widgets.block_map import BlockMap
from localpaged.tui.widgets.map_legend import MapLegend
from localpaged.tui.widgets.prefix_tree import PrefixTreeView
from localpaged.tui.widgets.status_line import StatusLine
from localpaged.tui.workspace import Changes, Workspace

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.app import LocalPagedApp

WIDE_COLUMNS, WIDE_ROWS = 110, 30


class BlocksScreen(OwnScreen[str | None]):
    """Looks at one model's memory, a few times a second, only while it is shown. UI thread only.

    Dismisses with the id of a chat to go to, or None. Invariant: everything that is shown is of
    what `look` has seen last.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", show=False, priority=True),
        # the key that opened it, whichever the user gave it
        Binding("f3", "leave", "Back", id="blocks", show=False, priority=True),
        Binding("tab,shift+tab", "other_part", "Map or tree", show=False, priority=True),
        *screen_bindings(IN_BLOCKS),
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
        self._glyphs = glyphs
        is_ascii = glyphs is not UNICODE or app.no_color
        self._view = View.CHAT
        self.look = MemoryLook(
            app.service, workspace, app.awaited, has_seen=self._seen, has_read=self._read
        )
        self._deeds = MemoryDeeds(app, self._look_again)
        self._top = StatusLine(id="blocks-top")
        self._tabs = StatusLine(id="blocks-tabs")
        self._nothing = StatusLine(id="blocks-nothing")
        self.block_map = BlockMap(is_ascii=is_ascii, id="block-map")
        self._legend = MapLegend(is_ascii=is_ascii, id="map-legend")
        self.prefix_tree: PrefixTreeView[TreeRow] = PrefixTreeView(glyphs, id="prefix-tree")
        self._details = Static(id="block-details")
        self._total = StatusLine(id="blocks-total")
        self._hints = StatusLine(id="blocks-hints")

    def compose(self) -> ComposeResult:
        """The map above the tree, details beside it; on a small screen one of the two."""
        yield self._top
        yield self._tabs
        yield self._nothing
        with Vertical(id="map-part"):
            yield self.block_map
            yield self._legend
        with Horizontal(id="tree-part"):
            yield self.prefix_tree
            yield self._details
        yield self._total
        yield self._hints

    # looking and drawing

    def beat(self, snapshot: EngineSnapshot, changes: Changes) -> bool:
        """Look again when it is time; return whether answers are being made."""
        if not self._is_there:
            self._show()
            return self._workspace.engine.failure is None
        self.look.look()
        return bool(self._workspace.running)

    @property
    def _is_there(self) -> bool:
        engine = self._workspace.engine
        return engine.ready is not None and engine.failure is None

    def _look_again(self) -> None:
        self.look.look_soon()
        self._owner.nudge()

    def _seen(self) -> None:
        if self.is_there:
            self._show()
            self._read_cursor()

    def _read(self) -> None:
        if self.is_there:
            self._show_details()

    def _read_cursor(self) -> None:
        if self._is_map_chosen:
            self.look.read(self.block_map.cursor)

    def _show(self) -> None:
        look, glyphs = self.look, self._glyphs
        self.set_class(not self._is_there, "-nothing")
        self._nothing.set(nothing_runs(self._workspace.engine, glyphs))
        is_wide = self.has_class("-wide")
        self._top.set(*head_runs(look.seen, glyphs, is_wide=is_wide))
        self._tabs.set(*tab_runs(is_tree=self.has_class("-tree"), glyphs=glyphs))
        palette = palette_of(self.app.current_theme)
        picture = look.picture(self._view)
        self.block_map.show(picture, palette)
        self._legend.show(picture, self._view, palette)
        self.prefix_tree.show(look.rows, look.label_of)
        self._total.set(total_runs(look.seen, look.snapshot, glyphs, is_wide=is_wide))
        has_models = len(look.models) > 1
        cells = self._hints.content_size.width
        self._hints.set(
            hint_runs(self._view, cells, has_models=has_models, is_there=self._is_there)
        )
        self._show_details()

    def _show_details(self) -> None:
        cells = max(20, self._details.content_size.width)
        lines = self._detail_lines(cells)[: max(1, self._details.content_size.height)]
        shown = [
            [run._replace(text=signs_of(run.text, self._glyphs)) for run in line.runs]
            for line in lines
        ]
        text = Content("\n").join([content_of(runs) for runs in shown])
        self._details.update(text, layout=False)

    def _detail_lines(self, cells: int) -> list[Line]:
        look = self.look
        if not self._is_map_chosen:
            row = self.prefix_tree.chosen
            if row is None:
                return []
            text = look.spell(row.top.first_tokens)
            return branch_lines(look.seen, row, text, title_of=look.title_of, cells=cells)
        block = self.block_map.cursor
        tokens = look.tokens_of(block)
        text = look.spell(tokens.token_ids) if tokens is not None else ""
        lines = block_lines(look.seen, block, tokens, text, title_of=look.title_of, cells=cells)
        if self.block_map.per_cell > 1:
            lines.insert(1, group_line(look.seen, block, self.block_map.per_cell))
        return lines

    @property
    def _is_map_chosen(self) -> bool:
        return self.focused is not self.prefix_tree

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

    def action_help(self) -> None:
        """Every key, those of this screen first."""
        self._owner.push_screen(HelpScreen("blocks"))

    def action_other_part(self) -> None:
        """The map or the tree; on a small screen the other one is shown."""
        self.toggle_class("-tree")
        if self.has_class("-tree"):
            self.set_focus(self.prefix_tree)
            place = self.look.place_of(self.block_map.cursor)
            if place is not None:
                self.prefix_tree.go_to(place)
        else:
            self.set_focus(self.block_map)
        self.call_after_refresh(self._show)

    def action_next_view(self) -> None:
        """What the colours tell: state, chat, references, age."""
        self._view = self._view.next
        self._show()

    def action_next_model(self) -> None:
        """The memory of another loaded model."""
        if not self.look.next_model():
            self._owner.tell("One model is loaded, and this is its memory.")
        self._owner.nudge()

    def action_pin(self) -> None:
        """Pin the branch at the cursor, or let go what pins it."""
        row = self._chosen_row()
        if row is not None:
            self._deeds.pin_or_unpin(row, self.look.model)

    def action_evict(self) -> None:
        """Give up what nobody uses of the branch, or from the block at the cursor on.

        Where other branches go on from it, which go, too, the user is asked first.
        """
        row = self._chosen_row()
        if row is None:
            return
        node, offset = row.top, 0
        if self._is_map_chosen:
            place = self.look.seen.place(self.block_map.cursor)
            assert place is not None, "a block of a branch has a place"
            node, offset = place
        loss = loss_of(self.look.seen, row, node=node, offset=offset)
        self._deeds.evict(loss, self.look.seen, model=self.look.model)

    def action_go_to_chat(self) -> None:
        """Leave for the chat that the block or the branch is of."""
        row = self.prefix_tree.chosen
        if self._is_map_chosen:
            chats = self.look.chats_of(self.block_map.cursor)
        else:
            chats = list(row.top.chats) if row is not None else []
        self._deeds.choose_chat(chats, self.look.title_of, self.dismiss)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without a model there is nothing to act on."""
        needs_blocks = action in ("pin", "evict", "next_model", "next_view", "go_to_chat")
        return not needs_blocks or self.look.seen.num_blocks > 0

    def _chosen_row(self) -> TreeRow | None:
        if not self._is_map_chosen:
            return self.prefix_tree.chosen
        place = self.look.place_of(self.block_map.cursor)
        if place is None:
            self._owner.tell("This block is not in the prefix tree: it is free or not full yet.")
            return None
        return self.look.rows[place]

    @on(BlockMap.Moved)
    @on(PrefixTreeView.Moved)
    def _moved(self) -> None:
        self._show_details()
        self._read_cursor()

    def on_descendant_focus(self) -> None:
        """The details are of what has the focus."""
        self.set_class(self.focused is self.prefix_tree, "-tree")
        self._show_details()
        self._read_cursor()
