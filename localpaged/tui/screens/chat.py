"""The chat screen: lays out its parts, feeds them from the workspace, passes on what they ask."""

from __future__ import annotations

from time import monotonic, time
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.tui import chrome
from localpaged.tui.compositor import OwnScreen
from localpaged.tui.costs import CostWatch
from localpaged.tui.edit_line import edit_runs
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.importing import importing_runs
from localpaged.tui.keys import ACTIONS
from localpaged.tui.paint import content_of
from localpaged.tui.session import SessionModel
from localpaged.tui.transcript.status import Moment
from localpaged.tui.widgets.document_view import MAX_COLUMN_CELLS
from localpaged.tui.widgets.prompt import Prompt
from localpaged.tui.widgets.sidebar import Sidebar
from localpaged.tui.widgets.status_line import StatusLine
from localpaged.tui.widgets.suggestions import Suggestions
from localpaged.tui.widgets.transcript import Transcript
from localpaged.tui.workspace import Changes, EngineStatus, Workspace

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Size

    from localpaged.tui.commands.commands import Commands

NARROW_COLUMNS = 80
DOCKED_COLUMNS = 120
FULL_ROWS = 16
TINY_ROWS = 14
LEAST_ROWS = 10
FEW_ROWS = 5


class ChatScreen(OwnScreen[None]):
    """One chat at a time over the workspace's many. UI thread only.

    Invariant: transcript, title and prompt belong to `workspace.current`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(a.binding for a in ACTIONS if a.is_of_chat and (a.keys or a.slash)),
        Binding("ctrl+z", "undo", show=False, priority=True),
        Binding("tab", "cycle_focus(1)", show=False),
        Binding("shift+tab", "cycle_focus(-1)", show=False),
        *(Binding(f"alt+{n}", f"number({n})", show=False, priority=True) for n in range(1, 10)),
    ]
    AUTO_FOCUS = "Prompt"

    commands: Commands

    def __init__(
        self, workspace: Workspace, glyphs: Glyphs, *, width: int = MAX_COLUMN_CELLS
    ) -> None:
        super().__init__()
        self.workspace = workspace
        self._snapshot = EngineSnapshot()
        self.costs = CostWatch()
        self.glyphs = glyphs
        self.transcript = Transcript(glyphs, width=width, id="transcript")
        self.sidebar = Sidebar(glyphs, id="sidebar")
        self.prompt = Prompt(dot=glyphs.dot, id="prompt")
        self._top = StatusLine(id="top")
        self.suggestions = Suggestions(glyphs, id="suggestions")
        self._title = StatusLine(id="title")
        self._failure = Static(id="failure")
        self._state = StatusLine(id="state")
        self._hints = StatusLine(id="hints")
        self._body = Horizontal(id="body")
        self._foot = Vertical(id="foot")
        self._frame = 0
        self._was_shown = False
        self._is_aligned = False
        self._unseen_lines: int | None = None

    def compose(self) -> ComposeResult:
        """Top line, list and chat side by side, keys at the bottom."""
        yield self._top
        with self._body:
            yield self.sidebar
            with Vertical(id="main"):
                yield self._title
                yield self.transcript
                with self._foot:
                    yield self._failure
                    yield self._state
                    yield self.suggestions
                    with Horizontal(id="prompt-row"):
                        yield Static(Content(self.glyphs.prompt), id="prompt-sign")
                        yield self.prompt
        yield self._hints

    # drawing

    def flush(self, snapshot: EngineSnapshot, changes: Changes) -> bool:
        """Draw what changed; return whether something moves by itself."""
        self._frame += 1
        self._snapshot = snapshot
        if not self._is_covered:
            current = self.workspace.current
            if current.id in changes.chat_ids or current.open_answer is not None:
                self.transcript.advance(self.moment)
            if changes.is_engine:
                self._show_failure()
            self.redraw()
        engine = self.workspace.engine
        is_loading = engine.ready is None and engine.failure is None
        return is_loading or bool(self.workspace.running or self.workspace.imports)

    @property
    def is_current(self) -> bool:
        """Whether the screen is seen, be it below a dialog.

        Textual takes what lies below any screen for visible: then a blinking cursor down here has
        all of that screen painted anew.
        """
        return super().is_current and not self._is_covered

    @property
    def _is_covered(self) -> bool:
        """Whether another whole screen lies over the chat."""
        return any(
            not isinstance(screen, ModalScreen) and screen is not self
            for screen in self.app.screen_stack
        )

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Draw what was missed while another screen lay over the chat."""
        if self._was_shown:
            self.call_after_refresh(self._catch_up)
        else:
            # every part was styled a moment ago, when it came to be
            event.refresh_styles = False
            self._was_shown = True

    def _catch_up(self) -> None:
        self.transcript.advance(self.moment)
        self._show_failure()
        self.redraw()

    @property
    def moment(self) -> Moment:
        """Now, as status lines need it."""
        return Moment(monotonic(), self._frame, self.workspace.engine.ready is not None)

    def show_current(self) -> None:
        """Show the workspace's current chat: transcript, prompt, title."""
        session = self.workspace.current
        self.transcript.show(session, self.moment)
        prompt = self.prompt
        prompt.load(session.draft if session.editing is None else session.editing.draft)
        self._show_failure()
        self.redraw()

    def redraw(self) -> None:
        """Draw every line around the transcript anew."""
        workspace, glyphs, moment = self.workspace, self.glyphs, self.moment
        engine, current, running = workspace.engine, workspace.current, workspace.running
        cells = self._top.content_size.width
        chosen = workspace.chosen_model
        self._top.set(*chrome.top_runs(engine, self._snapshot, glyphs, cells, chosen=chosen))
        listed = workspace.listed
        position = None
        if not self.sidebar.display:
            position = (listed.index(current) + 1, len(listed))
        room = self._title.content_size.width
        self._title.set(*chrome.title_runs(current, engine, position=position, cells=room))
        others = [s for s in running if s is not current]
        below = chrome.below_runs(self._unseen_lines, glyphs)
        state = (
            edit_runs(current, glyphs, self._state.room_beside(below))
            or chrome.state_runs(engine, [], glyphs, moment)
            or importing_runs(workspace.imports, glyphs, moment.frame)
            or chrome.warning_runs(current, engine, glyphs)
            or chrome.state_runs(engine, others, glyphs, moment)
        )
        self._state.set(state, below)
        is_shown = bool(state or below) or not self.has_class("-least")
        is_shown = is_shown and not self.has_class("-three")
        if is_shown != self._state.display:
            self._state.display = is_shown
            self.call_after_refresh(self.prompt.reveal_cursor)  # the prompt has moved
        self._hints.set(
            *chrome.hint_runs(
                self._snapshot,
                focus=self.focus_name,
                num_running=len(running),
                can_stop=current.open_answer is not None,
                cells=self._hints.content_size.width,
                is_endpoint=_is_by_endpoint(current, engine),
            )
        )
        if self.sidebar.display:
            costs = self.costs.of(self._snapshot)
            self.sidebar.show(listed, current, frame=moment.frame, now=time(), costs=costs)
        self.prompt.say(chrome.placeholder(engine, current))

    @property
    def focus_name(self) -> str:
        """Which part has the focus: prompt, transcript or list."""
        if self.focused is self.transcript:
            return "transcript"
        return "list" if self.focused is self.sidebar else "prompt"

    def _show_failure(self) -> None:
        failure = self.workspace.engine.failure
        self._failure.display = failure is not None
        if failure is not None:
            cells = self._foot.content_size.width
            lines = chrome.failure_lines(failure, self.glyphs, cells)
            self._failure.update(
                Content("\n").join([content_of(line.prefix + line.runs) for line in lines])
            )

    # size

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for another size."""
        has_changed = self.fit(event.size)
        # Textual tells of a size before it lays out for it, and again when all parts have theirs
        if self._body.outer_size.width != event.size.width:
            return
        if has_changed:
            self.call_after_refresh(self._align)
        else:
            self._align()

    def fit(self, size: Size) -> bool:
        """List beside, over or without the chat; the least needed lines go first.

        Return whether anything is laid out otherwise than before.
        """
        width, height = size
        before = self.classes
        self.set_class(width >= DOCKED_COLUMNS, "-docked")
        self.set_class(NARROW_COLUMNS <= width < DOCKED_COLUMNS, "-overlay")
        self.set_class(width < NARROW_COLUMNS, "-narrow")
        self.set_class(height < FULL_ROWS, "-short")
        self.set_class(height < TINY_ROWS, "-tiny")
        self.set_class(height < LEAST_ROWS, "-least")
        self.set_class(height < FEW_ROWS, "-few")
        for rows, name in ((3, "-three"), (2, "-two"), (1, "-one")):
            self.set_class(height <= rows, name)
        return self.classes != before

    def _compositor_refresh(self) -> None:
        # the first picture is of all parts in their places, not of one after the other
        if self._is_aligned:
            super()._compositor_refresh()

    def _align(self) -> None:
        """Title, state and prompt stand in the transcript's column."""
        # the scrollbar takes one cell at the right
        padding = (0, self.transcript.margin + 1, 0, self.transcript.margin)
        self._title.styles.padding = self._foot.styles.padding = padding
        self.redraw()
        if not self._is_aligned:
            self._is_aligned = True
            self._refresh_layout()  # and paint: not after the pause that Textual makes for others
        self.call_after_refresh(self._show_failure)

    # what the user does

    def action_do(self, action_id: str) -> None:
        """Every key of the table comes here."""
        self.commands.run(action_id)

    def action_number(self, number: int) -> None:
        """A key for each of the first chats."""
        self.commands.chats.number(number)

    def action_undo(self) -> None:
        """The undo key of the prompt, while a deleted chat can be brought back."""
        self.commands.chats.undo_key()

    def action_cycle_focus(self, step: int) -> None:
        """Prompt, transcript, list where there is one, and around."""
        parts = [self.prompt, self.transcript, *([self.sidebar] if self.sidebar.display else [])]
        at = parts.index(self.focused) if self.focused in parts else 0
        self.set_focus(parts[(at + step) % len(parts)])

    def on_key(self, event: events.Key) -> None:
        """Text typed with the focus elsewhere is meant for the prompt."""
        if event.is_printable and event.key not in self.active_bindings:
            event.stop()
            self.commands.chats.leave_list()
            self.prompt.insert(event.character or "")

    def on_descendant_focus(self) -> None:
        """The bottom line tells the keys of what has the focus."""
        self.redraw()

    # what the parts report

    @on(Prompt.Submitted)
    def _submit(self, message: Prompt.Submitted) -> None:
        self.commands.submit(message.draft)

    @on(Prompt.PageAsked)
    def _page(self, message: Prompt.PageAsked) -> None:
        if message.pages is None:
            self.transcript.follow()
        elif message.pages < 0:
            self.transcript.scroll_page_up()
        else:
            self.transcript.scroll_page_down()

    @on(Suggestions.Clicked)
    def _suggestion_clicked(self, message: Suggestions.Clicked) -> None:
        self.commands.completion.complete(message.offer)

    @on(Prompt.Labelled)
    def _labelled(self, message: Prompt.Labelled) -> None:
        self.commands.attaching.price(message.label, message.text)

    @on(Prompt.PastedAlone)
    def _pasted_alone(self, message: Prompt.PastedAlone) -> None:
        self.commands.attaching.offer(message.text)

    @on(TextArea.Changed)
    def _typed(self) -> None:
        self.commands.typed()

    @on(Sidebar.Chosen)
    def _chosen(self, message: Sidebar.Chosen) -> None:
        # the requests to rename and delete are kinds of Chosen
        if type(message) is Sidebar.Chosen:
            self.commands.chats.go_to(message.session)
            self.commands.chats.leave_list()

    @on(Sidebar.RenameAsked)
    def _rename_asked(self, message: Sidebar.RenameAsked) -> None:
        self.commands.chats.rename(message.session)

    @on(Sidebar.DeleteAsked)
    def _delete_asked(self, message: Sidebar.DeleteAsked) -> None:
        self.commands.chats.delete(message.session)

    @on(Sidebar.ArchiveAsked)
    def _archive_asked(self, message: Sidebar.ArchiveAsked) -> None:
        self.commands.history.archive(message.session)

    @on(Transcript.FindAsked)
    def _find_asked(self, message: Transcript.FindAsked) -> None:
        finding = self.commands.history.finding
        finding.step(message.step) if message.step else finding.ask()

    @on(Transcript.BranchAsked)
    def _branch_asked(self, message: Transcript.BranchAsked) -> None:
        self.commands.branches.go(message.way, message.entry)

    @on(Transcript.LinkClicked)
    def _link_clicked(self, message: Transcript.LinkClicked) -> None:
        self.commands.answers.offer_link(message.href)

    @on(Transcript.CopyAsked)
    def _copy_asked(self, message: Transcript.CopyAsked) -> None:
        self.commands.answers.copy_message(message.text, message.what)

    @on(Transcript.Left)
    def _left(self) -> None:
        self.set_focus(self.prompt)

    @on(Transcript.Moved)
    def _moved(self, message: Transcript.Moved) -> None:
        # what is not followed may be in view as a whole: the terminal has grown
        unseen_lines = None if message.is_following else message.unseen_lines or None
        if unseen_lines != self._unseen_lines:
            self._unseen_lines = unseen_lines
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        """The line below the transcript tells of newer lines: a click goes there."""
        is_below = event.widget is not None and event.widget.id == "state"
        if is_below and self._unseen_lines is not None:
            self.transcript.follow()


def _is_by_endpoint(session: SessionModel, engine: EngineStatus) -> bool:
    """Whether the chat's newest answer was made over HTTP."""
    answer = session.last_answer
    ready = None if answer is None else engine.ready_of(answer.turn.model)
    return ready is not None and ready.is_endpoint
