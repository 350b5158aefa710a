"""Block map and prefix tree of a snapshot; on a small screen one of the two."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from localpaged.stats.schema import BlockMap as SeenMap
from localpaged.stats.schema import ModelStats, Tree
from localpaged.tui.markdown.line import Role, Run
from localpaged.tui.memory.palette import palette_of
from localpaged.tui.memory.tree_lines import signs_of
from localpaged.tui.memory.views import ChatColours, View
from localpaged.tui.memory.words import UNLISTED
from localpaged.tui.stats.chat_rows import UNTITLED
from localpaged.tui.stats.memory import (
    StatsBranch,
    branch_label,
    branch_rows,
    branch_words,
    cell_words,
    map_picture,
    seen_of,
    tree_words,
)
from localpaged.tui.stats.plots import Pen
from localpaged.tui.widgets.block_map import BlockMap
from localpaged.tui.widgets.map_legend import MapLegend
from localpaged.tui.widgets.prefix_tree import PrefixTreeView
from localpaged.tui.widgets.status_line import StatusLine

NO_MAP = SeenMap(0, 1, "", "", "", "")


class MemoryView(Vertical):
    """Shows the map and the tree that were told last. UI thread only.

    Invariant: what is drawn is of `_model`; map and tree that a snapshot does not have stay as
    they were, since a look asks only for what is shown.
    """

    def __init__(self, pen: Pen) -> None:
        super().__init__(id="stats-memory")
        self._glyphs = glyphs = pen.glyphs
        # where colours do not tell blocks apart, they are letters
        is_ascii = pen.is_ascii or not pen.has_colours
        self._view = View.CHAT
        self._model: ModelStats | None = None
        self._map = NO_MAP
        self._seen = seen_of(NO_MAP)
        self._tree = Tree()
        self._colours = ChatColours()
        self._titles: dict[str, str] = {}
        self.block_map = BlockMap(is_ascii=is_ascii, id="stats-map")
        self._legend = MapLegend(is_ascii=is_ascii, id="stats-legend")
        self._words = StatusLine(id="stats-map-words")
        self.prefix_tree: PrefixTreeView[StatsBranch] = PrefixTreeView(glyphs, id="stats-tree")
        self._tree_words = StatusLine(id="stats-tree-head")
        self._branch_words = StatusLine(id="stats-tree-words")

    def compose(self) -> ComposeResult:
        """The map above the tree, each with what is known of what is at its cursor."""
        with Vertical(id="stats-map-part"):
            yield self.block_map
            yield self._legend
            yield self._words
        with Vertical(id="stats-tree-part"):
            yield self._tree_words
            yield self.prefix_tree
            yield self._branch_words

    def show(self, model: ModelStats) -> None:
        """Draw what this model tells of its memory."""
        if self._model is None or self._model.name != model.name:
            self._map, self._tree, self._colours = NO_MAP, Tree(), ChatColours()
            self._titles.clear()
        self._model = model
        self._titles.update({chat.chat_id: chat.title for chat in model.chats})
        if model.block_map is not None and model.block_map != self._map:
            self._map = model.block_map
            self._seen = seen_of(self._map)
            self._colours.follow(self._seen)
        if model.tree is not None:
            self._tree = model.tree
        self.draw()

    def draw(self) -> None:
        """Draw it once more, where there is room for something else now."""
        palette = palette_of(self.app.current_theme)
        drawn = map_picture(
            self._map, self._seen, self._view, colours=self._colours, title_of=self._title_of
        )
        self.block_map.show(drawn, palette)
        self._legend.show(drawn, self._view, palette)
        self.prefix_tree.show(
            branch_rows(self._tree), lambda row: branch_label(row, self._title_of)
        )
        self._tell()

    def next_colours(self) -> None:
        """What the colours of the map tell: state, chat, references, age."""
        self._view = self._view.next
        self.draw()

    @on(BlockMap.Moved)
    @on(PrefixTreeView.Moved)
    def _tell(self) -> None:
        cell = self.block_map.cursor
        self._words.set(self._joined(cell_words(self._map, self._seen, cell, self._title_of)))
        row = self.prefix_tree.chosen
        if self._model is not None:
            self._tree_words.set(self._joined(tree_words(self._tree, self._model)))
            words = [] if row is None else branch_words(row, self._model)
            self._branch_words.set(self._joined(words))

    def _joined(self, words: list[str]) -> list[Run]:
        runs: list[Run] = []
        for word in words:
            runs += [Run(f" {self._glyphs.dot} ", Role.FAINT)] if runs else []
            runs.append(Run(signs_of(word, self._glyphs), Role.DIM))
        return runs

    def _title_of(self, chat_id: str) -> str:
        title = self._titles.get(chat_id)
        return UNLISTED if title is None else title or UNTITLED
