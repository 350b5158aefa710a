"""The token view: an answer token by token, what else was likely, and a way on from any of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from localpaged.chat.token_view import Candidate, TokenView
from localpaged.engine.events import PrefillEvent
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.tui.compositor import OwnScreen
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.hint_line import SOON, Hint, fitted_runs, help_hint
from localpaged.tui.keys import IN_TOKENS, screen_bindings
from localpaged.tui.markdown.line import Run
from localpaged.tui.paint import content_of
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.tokens.panel import candidate_runs, head_runs, measuring_runs, title_runs
from localpaged.tui.widgets.status_line import StatusLine
from localpaged.tui.widgets.token_text import TokenText
from localpaged.tui.workspace import Changes

HINTS = (
    Hint("←→", "token"),
    Hint("↑↓", "other"),
    Hint("Enter", "go on with it"),
    Hint("f", "fork here"),
    Hint("n N", "surprises"),
    Hint("c", "colours"),
    Hint("Esc", "back", SOON),
)


@dataclass(frozen=True, slots=True)
class TokenFork:
    """Go on behind the first `num_tokens` tokens, with another token if one was chosen."""

    turn_id: str
    num_tokens: int
    next_token_id: int | None = None


class TokenScreen(OwnScreen[TokenFork | None]):
    """Dismisses with where to go on, or None. UI thread only.

    Invariant: `_marked` counts the candidates of the token at the cursor.
    """

    AUTO_FOCUS = "TokenText"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,t", "leave", "Back", show=False, priority=True),
        Binding("up", "mark(-1)", "Candidate above", show=False, priority=True),
        Binding("down", "mark(1)", "Candidate below", show=False, priority=True),
        Binding("enter", "take", "Go on with it", show=False, priority=True),
        Binding("f", "fork", "Fork here", show=False),
        *screen_bindings(IN_TOKENS),
    ]

    def __init__(self, glyphs: Glyphs, *, tell: Callable[[str], None]) -> None:
        """`tell` shows a short message."""
        super().__init__()
        self._tell = tell
        self._glyphs = glyphs
        self._view: TokenView | None = None
        self._read: PrefillEvent | None = None
        self._frame = 0
        self._marked = 0
        self._top = StatusLine(id="tokens-top")
        self.text = TokenText(glyphs, id="token-text")
        self._head = StatusLine(id="tokens-head")
        self._panel = Static(id="tokens-panel")
        self._hints = StatusLine(id="tokens-hints")

    def compose(self) -> ComposeResult:
        """The answer above, what was likely at the cursor below."""
        yield self._top
        yield self.text
        yield self._head
        yield self._panel
        yield self._hints

    def on_mount(self) -> None:
        """Say that it is being measured."""
        self._redraw()

    def on_resize(self) -> None:
        """The hints may have room for more."""
        self._redraw()

    def beat(self, snapshot: EngineSnapshot, changes: Changes) -> bool:
        """Tell how far the measuring is; return whether it goes on."""
        if self._view is None:
            self._frame += 1
            self._draw_top()
        return self._view is None

    def note_read(self, read: PrefillEvent) -> None:
        """So much of the answer is read. Any thread; it is drawn at the next beat."""
        self._read = read

    @property
    def is_measured(self) -> bool:
        """Whether there is something to look at."""
        return self._view is not None

    def show(self, view: TokenView) -> None:
        """Show what was measured."""
        self._view = view
        self.text.show(view)
        self._mark_written()

    @on(TokenText.Moved)
    def _moved(self) -> None:
        self._mark_written()

    @on(TokenText.NoSurprise)
    def _no_surprise(self) -> None:
        self._tell("No other token of this answer was a surprise.")

    # what the user does

    def action_mark(self, step: int) -> None:
        """Choose another candidate."""
        count = len(self._candidates)
        if count:
            self._marked = (self._marked + step) % count
            self._redraw()

    def action_take(self) -> None:
        """Go on with the candidate that is marked; the written one is no other way."""
        candidates = self._candidates
        if self._view is None or not candidates:
            return
        cursor, chosen = self.text.cursor, candidates[self._marked]
        if chosen.token_id == self._view.tokens[cursor].token_id:
            self.dismiss(TokenFork(self._view.turn_id, cursor + 1))
        else:
            self.dismiss(TokenFork(self._view.turn_id, cursor, chosen.token_id))

    def action_fork(self) -> None:
        """Go on behind the token at the cursor."""
        if self._view is not None:
            self.dismiss(TokenFork(self._view.turn_id, self.text.cursor + 1))

    def action_help(self) -> None:
        """Every key, those of this screen first."""
        self.app.push_screen(HelpScreen("tokens"))

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)

    # drawing

    @property
    def _candidates(self) -> tuple[Candidate, ...]:
        if self._view is None or not self._view.tokens:
            return ()
        return self._view.tokens[self.text.cursor].candidates

    def _mark_written(self) -> None:
        written = None if self._view is None else self._view.tokens[self.text.cursor].token_id
        places = (i for i, c in enumerate(self._candidates) if c.token_id == written)
        self._marked = next(places, 0)
        self._redraw()

    def _redraw(self) -> None:
        view, glyphs = self._view, self._glyphs
        self._draw_top()
        self._head.set([] if view is None else head_runs(view, self.text.cursor, glyphs), [])
        rows: list[Content] = []
        for number, candidate in enumerate(self._candidates):
            assert view is not None
            is_chosen = candidate.token_id == view.tokens[self.text.cursor].token_id
            runs = candidate_runs(
                candidate, is_chosen=is_chosen, is_marked=number == self._marked, glyphs=glyphs
            )
            rows.append(content_of(runs))
        self._panel.update(Content("\n").join(rows))
        self._hints.set(self._hint_runs(), [])

    def _draw_top(self) -> None:
        if self._view is None:
            self._top.set(measuring_runs(self._read, self._glyphs, self._frame))
        else:
            self._top.set(*title_runs(self._view))

    def _hint_runs(self) -> list[Run]:
        return fitted_runs([*HINTS, help_hint()], self._hints.content_size.width)
