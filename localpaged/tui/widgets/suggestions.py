"""A few lines above the prompt: what a slash command may become. Drawn, never focused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from localpaged.tui.keys import Action
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.paint import cells_of, content_of

if TYPE_CHECKING:
    from textual import events

    from localpaged.tui.glyphs import Glyphs

MAX_ROWS = 6
GAP_CELLS = 2


class Suggestions(Widget):
    """Shows some commands and which of them is meant; what is clicked is posted, not done.

    Invariant: `_top` is the first row that is shown, and the marked one is among those shown.
    """

    DEFAULT_CSS = "Suggestions { height: auto; width: 1fr; display: none; }"
    ALLOW_SELECT = False

    class Clicked(Message):
        """A command is meant."""

        def __init__(self, action: Action) -> None:
            super().__init__()
            self.action = action

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._actions: Sequence[Action] = ()
        self._marked: int | None = None
        self._top = 0

    def show(self, actions: Sequence[Action], marked: int | None) -> None:
        """Show these commands, one of them marked; none take no room."""
        if (actions, marked) == (self._actions, self._marked):
            return
        # a low terminal shows the answer as well
        num_rows = min(MAX_ROWS, max(1, self.app.size.height // 4), len(actions))
        self._top = min(self._top, max(0, len(actions) - num_rows))
        if marked is not None:
            self._top = max(min(self._top, marked), marked - num_rows + 1)
        self._actions, self._marked = actions, marked
        self.display = bool(actions)
        self.styles.height = num_rows
        self.refresh()

    def render(self) -> Content:
        """The rows in view."""
        shown = self._actions[self._top : self._top + self.content_size.height]
        cells = max((cell_len(_usage(action)) for action in shown), default=0)
        room = self.content_size.width
        rows = [
            content_of(self._row(action, cells, room, is_marked=self._top + row == self._marked))
            for row, action in enumerate(shown)
        ]
        return Content("\n").join([row.truncate(room) for row in rows])

    def on_click(self, event: events.Click) -> None:
        """A click means the command under it."""
        event.stop()
        offset = event.get_content_offset(self)
        row = self._top + (offset.y if offset is not None else len(self._actions))
        if row < len(self._actions):
            self.post_message(self.Clicked(self._actions[row]))

    def _row(self, action: Action, cells: int, room: int, *, is_marked: bool) -> list[Run]:
        sign = f"{self._glyphs.current} " if is_marked else "  "
        name = f"/{action.slash}"
        argument = f" {action.argument}" if action.argument else ""
        gap = " " * (cells - cell_len(name + argument) + GAP_CELLS)
        runs = [
            Run(sign, Role.ACCENT),
            Run(name, Role.USER if is_marked else Role.TEXT, STRONG if is_marked else 0),
            Run(f"{argument}{gap}", Role.FAINT),
            Run(action.label, Role.DIM),
        ]
        key = Run(f"  {action.shown}" if action.shown and not action.where else "", Role.FAINT)
        return [*runs, key] if cells_of([*runs, key]) <= room else runs


def _usage(action: Action) -> str:
    return f"/{action.slash} {action.argument}".rstrip()
