"""The compare screen: several answers to one prompt side by side, as they are made."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.tui.commands.compare_deeds import CompareDeeds
from localpaged.tui.compare.layout import arrange
from localpaged.tui.compare.lines import head_runs, hint_runs, placeholder, tab_runs
from localpaged.tui.compare.model import CompareModel, Pane
from localpaged.tui.compositor import OwnScreen
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.keys import IN_COMPARE, screen_bindings
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.transcript.status import Moment
from localpaged.tui.widgets.compare_pane import ComparePane, PaneView
from localpaged.tui.widgets.prompt import Prompt
from localpaged.tui.widgets.status_line import StatusLine
from localpaged.tui.workspace import Changes, Workspace

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.app import LocalPagedApp

DRAWN_ONE_BY_ONE = 5
"""So many panes that scroll take too long to paint them together."""
DRAWN_EVERY_S = 0.025
LINES_AROUND = 4
"""Rows of the screen that are no panes: top, hints and the line to write in."""
SHORT_ROWS = 12
"""With fewer rows lines that tell of sharing, or a name twice, leave theirs to the answers."""


class CompareScreen(OwnScreen[str | None]):
    """Draws a CompareModel; what keys ask is done by CompareDeeds. UI thread only.

    Dismisses with the id of a chat to go on with, or None. Invariant: each pane of the model has
    one widget; only those that are displayed are drawn.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Stop, or back", show=False, priority=True),
        Binding("ctrl+c", "copy_or_leave", "Copy, or back", show=False, priority=True),
        Binding("enter", "go_on", "Continue with this one", show=False),
        *screen_bindings(IN_COMPARE),
        *(Binding(str(n), f"select({n})", show=False) for n in range(1, 10)),
    ]
    AUTO_FOCUS = ".-selected-first PaneView"

    def __init__(
        self, app: LocalPagedApp, workspace: Workspace, glyphs: Glyphs, model: CompareModel
    ) -> None:
        super().__init__()
        self.model = model
        self._owner = app
        self._workspace = workspace
        self._glyphs = glyphs
        self._deeds = CompareDeeds(app, workspace, glyphs, model)
        self._frame = 0
        self._due: set[Pane] = set()
        self._turn: list[Pane] = []
        self._is_drawing = False
        self._widgets = {pane: ComparePane(pane, glyphs) for pane in model.panes}
        self._widgets[model.current].add_class("-selected-first")
        self._top = StatusLine(id="compare-top")
        self._tabs = StatusLine(id="compare-tabs")
        self._grid = Container(*self._widgets.values(), id="compare-panes")
        self.prompt = Prompt(id="compare-prompt")
        self._hints = StatusLine(id="compare-hints")

    def compose(self) -> ComposeResult:
        """The prompt above all answers; below them the line for a follow-up."""
        yield self._top
        yield self._tabs
        yield self._grid
        with Horizontal(id="compare-row"):
            yield Static(Content(self._glyphs.prompt), id="compare-sign")
            yield self.prompt
        yield self._hints

    @property
    def shown(self) -> list[Pane]:
        """The panes that are displayed."""
        return [pane for pane in self.model.panes if self._widgets[pane].display]

    @property
    def is_writing(self) -> bool:
        """Whether keys go into the line for a follow-up."""
        return self.focused is self.prompt

    # drawing

    def beat(self, snapshot: EngineSnapshot, changes: Changes) -> bool:
        """Draw what changed in the panes that are shown; return whether answers are made."""
        self._frame += 1
        service = self._owner.service
        names = list(self._workspace.engine.readies)
        self.model.look([snapshot, *(service.snapshot(name) for name in names)])
        self._due |= {pane for pane in self.model.panes if pane.chat.id in changes.chat_ids}
        self._due -= {pane for pane in self._due if not self._widgets[pane].display}
        shown = self.shown
        if len(shown) < DRAWN_ONE_BY_ONE:
            self._draw_panes(shown, self._due)
            self._due.clear()
        else:
            # in one beat one half, in the next the other
            middle = (len(shown) + 1) // 2
            turn = shown[:middle] if self._frame % 2 else shown[middle:]
            self._turn += [pane for pane in turn if pane not in self._turn]
            if not self._is_drawing:
                self._draw_turn()
        self._draw_lines()
        return self.model.is_running or bool(self._due)

    def _draw_turn(self) -> None:
        """Draw one pane, and the next a little later: a key that comes is shown in between."""
        pane = self._turn.pop(0)
        self._draw_panes([pane], self._due.intersection([pane]))
        self._due.discard(pane)
        self._is_drawing = bool(self._turn)
        if self._is_drawing:
            self.set_timer(DRAWN_EVERY_S, self._draw_turn)

    @property
    def _moment(self) -> Moment:
        return Moment(monotonic(), self._frame, self._workspace.engine.ready is not None)

    def _draw(self) -> None:
        """Draw everything that is shown."""
        self._due.clear()
        self._draw_panes(self.shown, self.shown)
        self._draw_lines()

    def _draw_panes(self, panes: Collection[Pane], grown: Collection[Pane]) -> None:
        """Draw the lines around the text of `panes`, and the text of those that have `grown`."""
        model, engine, moment = self.model, self._workspace.engine, self._moment
        for place, pane in enumerate(model.panes):
            if pane in grown:
                self._widgets[pane].show_text(moment)
            if pane in panes:
                self._widgets[pane].show_lines(model, place, engine, moment)

    def _draw_lines(self) -> None:
        model, engine, glyphs = self.model, self._workspace.engine, self._glyphs
        self._top.set(*head_runs(model, glyphs, cells=self._top.content_size.width))
        self._tabs.set(tab_runs(model, engine, glyphs))
        cells = self._hints.content_size.width
        self._hints.set(hint_runs(model, cells, is_writing=self.is_writing))
        self.prompt.say(placeholder(model))

    def _arrange(self) -> None:
        """Place the panes: all of them where each has room, else the selected one."""
        model = self.model
        around = LINES_AROUND + max(0, self.prompt.size.height - 1)
        arrangement = None
        if not model.is_zoomed:
            width, height = self.size.width, self.size.height - around
            arrangement = arrange(len(model.panes), width=width, height=height)
        self.set_class(arrangement is None and len(model.panes) > 1, "-tabs")
        self._grid.styles.grid_size_columns = 1 if arrangement is None else arrangement.columns
        for place, pane in enumerate(model.panes):
            widget = self._widgets[pane]
            widget.display = arrangement is not None or place == model.selected
            widget.styles.column_span = 1 if arrangement is None else arrangement.spans[place]
        self.call_after_refresh(self._draw)

    def _follow_model(self) -> None:
        """The model has other panes, or others in front: show it as it is now."""
        for pane in self.model.panes:
            if pane not in self._widgets:
                self._widgets[pane] = ComparePane(pane, self._glyphs)
                self._grid.mount(self._widgets[pane])
        if list(self._grid.children) != [self._widgets[pane] for pane in self.model.panes]:
            self._grid.sort_children(key=self._place_of)
        self._arrange()
        if not self.is_writing:
            self.call_after_refresh(self._focus_selected)

    def _place_of(self, widget: Widget) -> int:
        assert isinstance(widget, ComparePane)
        return self.model.panes.index(widget.pane)

    def _focus_selected(self) -> None:
        self.set_focus(self._widgets[self.model.current].view)

    def on_resize(self, event: events.Resize) -> None:
        """More or fewer panes have room; the answers' text goes before what is told of them."""
        self.set_class(event.size.height < SHORT_ROWS, "-short")
        self._arrange()

    def on_screen_resume(self) -> None:
        """What was missed while something lay over the screen."""
        self.call_after_refresh(self._draw)

    def on_descendant_focus(self) -> None:
        """The pane that has the focus is the selected one."""
        for place, pane in enumerate(self.model.panes):
            if self._widgets[pane].view is self.focused and place != self.model.selected:
                self._select(place)
                return
        self._draw_panes(self.shown, ())
        self._draw_lines()

    # what the user does

    def action_step(self, step: int) -> None:
        """The next pane at that side."""
        self._select(self.model.selected + step)

    def action_select(self, number: int) -> None:
        """The pane of that number, counted from 1."""
        if number <= len(self.model.panes):
            self._select(number - 1)

    def _select(self, place: int) -> None:
        self.model.select(place)
        self._follow_model()

    def action_zoom(self) -> None:
        """One pane alone, or all of them."""
        self.model.is_zoomed = not self.model.is_zoomed
        self._follow_model()

    def action_do(self, action_id: str) -> None:
        """What the key table has for this screen; what is done with the answers is shown."""
        name = action_id.removeprefix("compare_")
        own = {
            "zoom": self.action_zoom,
            "write": self.action_write,
            "delete": self.action_delete,
            "leave": self.action_leave,
        }
        if name in own:
            own[name]()
        else:
            self._deeds.run(name)
            self._follow_model()

    def action_write(self) -> None:
        """Write to the answers."""
        self.set_focus(self.prompt)

    def action_back(self) -> None:
        """The least first: leave the line, stop the answer, end the diff, the zoom, all."""
        if self.is_writing:
            self._focus_selected()
        elif self._deeds.stop_current():
            self._draw()
        elif self.model.diff_from is not None:
            self.model.diff_from = None
            self._draw()
        elif self.model.is_zoomed:
            self.action_zoom()
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Back to the chat; what runs goes on."""
        self.dismiss(None)

    def action_copy_or_leave(self) -> None:
        """Copy what is selected, else go back."""
        selected = self.get_selected_text() or self.prompt.selected_text
        if selected:
            self._owner.copy_text(selected, "selection")
            self.clear_selection()
        else:
            self.action_back()

    def action_go_on(self) -> None:
        """Keep the selected answer and go on with it in the chat."""
        chat_id = self._deeds.keep_for_chat()
        if chat_id is not None:
            self.dismiss(chat_id)

    def action_delete(self) -> None:
        """Delete the compare, when the user says so again."""
        self._deeds.ask_to_delete(lambda: self.dismiss(None))

    def action_help(self) -> None:
        """Every key, those of this screen first."""
        self._owner.push_screen(HelpScreen("compare"))

    @on(Prompt.Submitted)
    def _submitted(self, message: Prompt.Submitted) -> None:
        if self._deeds.send(message.draft.full):
            self.prompt.add_sent(message.draft.full)
            for pane in self.shown:
                self._widgets[pane].view.follow()
        else:
            self.prompt.give_back(message.draft)
        self._draw()

    @on(Prompt.PageAsked)
    def _page(self, message: Prompt.PageAsked) -> None:
        view: PaneView = self._widgets[self.model.current].view
        if message.pages is None:
            view.follow()
        elif message.pages < 0:
            view.scroll_page_up()
        else:
            view.scroll_page_down()
