"""An import that is under way: how far it is, on one line, and its end when asked for."""

from __future__ import annotations

from collections.abc import Sequence

from localpaged.chat.portable.report import ImportProgress
from localpaged.plain_text import visible
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.keys import key_of
from localpaged.tui.markdown.line import Role, Run
from localpaged.tui.transcript.status import spinner


class Importing:
    """One file that is read by a thread.

    Invariant: `progress` is frozen and replaced as a whole by that thread; `is_left` becomes True
    once, on the UI's thread, and has the reading end after the chat that it is at.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.progress = ImportProgress()
        self.is_left = False

    def take(self, progress: ImportProgress) -> None:
        """Note how far it is. The reading thread."""
        self.progress = progress

    def may_go_on(self) -> bool:
        """Whether nobody has asked it to end. The reading thread."""
        return not self.is_left


def importing_runs(imports: Sequence[Importing], glyphs: Glyphs, frame: int) -> list[Run]:
    """The line above the prompt while files are read: the one that was begun last."""
    if not imports:
        return []
    latest = imports[-1]
    told = "ends after this chat" if latest.is_left else f"{key_of('stop')} ends it"
    parts = [part for part in (latest.progress.words, told, visible(latest.name)) if part]
    return [
        Run(f"{spinner(glyphs, frame)} ", Role.ACCENT),
        Run("importing"),
        Run("".join(f" {glyphs.dot} {part}" for part in parts), Role.DIM),
    ]
