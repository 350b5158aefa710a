"""One pane of the compare screen: name, the answer as it grows, how far it is, its blocks."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from localpaged.store.rows import TurnStatus
from localpaged.tui.compare.lines import pane_blocks_runs, pane_head_runs, pane_state_runs
from localpaged.tui.compare.model import CompareModel, Pane
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import Line
from localpaged.tui.session import Answer, Entry
from localpaged.tui.transcript.cells import AnswerCell, Cell
from localpaged.tui.transcript.document import Document
from localpaged.tui.transcript.status import Moment
from localpaged.tui.widgets.document_view import DocumentView, Place
from localpaged.tui.widgets.status_line import StatusLine
from localpaged.tui.workspace import EngineStatus


class PaneAnswerCell(AnswerCell):
    """An answer whose state is told below the pane; what went wrong stands in the text."""

    def _status_lines(self, moment: Moment) -> list[Line]:
        lines = super()._status_lines(moment)
        return lines if self.answer.status is TurnStatus.ERROR else []


class PaneDocument(Document):
    """The lines of one pane."""

    def _cell(self, entry: Entry) -> Cell:
        if isinstance(entry, Answer):
            return PaneAnswerCell(entry, self._glyphs, self._width, self._folds)
        return super()._cell(entry)


class PaneView(DocumentView):
    """The scrolling text of a pane; it has the focus when the pane is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "screen.step(-1)", "Answer at the left", show=False),
        Binding("right,l", "screen.step(1)", "Answer at the right", show=False),
        Binding("g", "scroll_home", "Top", show=False),
        Binding("G", "follow", "Newest", show=False),
    ]

    def column_in(self, cells: int) -> int:
        """All cells but one, which the answer's indent and the scrollbar make up for."""
        return max(1, cells - 1)

    def action_follow(self) -> None:
        """Go to the newest line."""
        self.follow()


class ComparePane(Vertical):
    """Draws one pane of the model. UI thread only."""

    def __init__(self, pane: Pane, glyphs: Glyphs) -> None:
        super().__init__(classes="compare-pane")
        self.pane = pane
        self._glyphs = glyphs
        self._head = StatusLine()
        self._head.add_class("pane-head")
        self.view = PaneView(glyphs, width=0)
        self._state = StatusLine()
        self._blocks = StatusLine()
        self._blocks.add_class("pane-blocks")
        self._has_document = False

    def compose(self) -> ComposeResult:
        """Name, text, state, blocks; nothing of it changes height."""
        yield self._head
        yield self.view
        yield self._state
        yield self._blocks

    def show_text(self, moment: Moment) -> None:
        """Draw what the answer gained; the first time, all of it."""
        if self._has_document:
            self.view.advance(moment)
            return
        self._has_document = True
        document = PaneDocument(self.pane.session, self._glyphs, self.view.column)
        self.view.go_to(Place(document), moment)

    def show_lines(
        self, model: CompareModel, place: int, engine: EngineStatus, moment: Moment
    ) -> None:
        """Draw the lines around the text."""
        is_selected = place == model.selected
        self.set_class(is_selected, "-selected")
        self._head.set(
            *pane_head_runs(self.pane, place, model, engine, self._glyphs, is_selected=is_selected)
        )
        is_blind = model.compare.is_blind
        self._state.set(pane_state_runs(self.pane, engine, self._glyphs, moment, is_blind=is_blind))
        self._blocks.set(pane_blocks_runs(self.pane, model))
