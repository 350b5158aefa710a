"""The dashboard as an application: its look, what it tells, how it ends. No chat, no engine."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from textual.filter import LineFilter

from localpaged.plain_text import visible
from localpaged.tui import clipboard
from localpaged.tui.appearance import first_theme, without_greys
from localpaged.tui.ascii_filter import AsciiFilter
from localpaged.tui.dead_parts import TidyApp
from localpaged.tui.glyphs import ASCII, UNICODE, Glyphs
from localpaged.tui.notices import Notices
from localpaged.tui.paste_guard import guard_pastes
from localpaged.tui.stats.screen import StatsScreen
from localpaged.tui.stats.source import StatsSource
from localpaged.tui.stats.watch import Watch
from localpaged.tui.theme import DARK, themes

STYLES = Path(__file__).parent.parent / "styles"


class StatsApp(TidyApp[None]):
    """One screen over one StatsSource, which it neither makes nor closes. UI thread only."""

    TITLE = "localpaged stats"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH: ClassVar = [
        STYLES / f"{name}.tcss" for name in ("app", "dialogs", "stats", "few_colours")
    ]

    def __init__(
        self,
        source: StatsSource,
        *,
        glyphs: Glyphs = UNICODE,
        theme: str = "",
        usual_theme: str = DARK,
        engine: str | None = None,
        interval_s: float | None = None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """`theme` is the config file's. `engine` is looked at first, else the newest one."""
        super().__init__()
        self._glyphs = glyphs
        self._notices = Notices()
        for each in themes():
            self.register_theme(each)
        if self.no_color:
            self._filters = without_greys(self._filters)
        self.theme = first_theme(theme, usual_theme, has_colours=not self.no_color)
        guard_pastes()
        watch = Watch(clock_s=clock_s, engine=engine)
        if interval_s is not None:
            watch.interval_s = interval_s
        self.stats = StatsScreen(
            self, source, watch=watch, glyphs=glyphs, clock_s=clock_s, leave=self.exit
        )

    def get_default_screen(self) -> StatsScreen:
        """The dashboard is there from the first moment on."""
        return self.stats

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Where ASCII alone is asked for, what Textual draws is drawn so, too."""
        filters = super().get_line_filters()
        return filters if self._glyphs is not ASCII else [*filters, AsciiFilter()]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Colours of our own that any theme may leave out."""
        return themes()[0].variables

    def on_mount(self) -> None:
        """Leave the terminal as it was, however the program is ended."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for name in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(name, self.exit)

    def tell(self, text: str, *, is_error: bool = False, for_s: float = 4.0) -> None:
        """A short message in a corner, shown literally."""
        text = visible(text)
        if self._notices.is_new(text, for_s=for_s):
            severity = "error" if is_error else "information"
            self.notify(text, severity=severity, timeout=for_s, markup=False)  # type: ignore[arg-type]

    def copy_text(self, text: str, what: str) -> None:
        """Copy, and say what and how much."""
        clipboard.copy_and_tell(self, text, what, tell=self.tell)

    def action_help_quit(self) -> None:
        """Leave a dialog with the key that leaves everything."""
        if self.screen is not self.stats:
            self.screen.dismiss()
