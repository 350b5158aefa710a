"""What is set, by whom, and where the files are; the way to the config file."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localpaged.config_file import ConfigFile
from localpaged.tui.compositor import Dialog
from localpaged.tui.paint import content_of
from localpaged.tui.screens.page import fit_page
from localpaged.tui.settings_text import settings_runs

CLOSING = "e edits the config file, for the next start. Esc closes."


class SettingsScreen(Dialog[bool]):
    """Dismisses with whether the config file is to be edited."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "leave", "Close", show=False, priority=True),
        # the key that opened it, whichever the user gave it
        Binding("f2", "leave", "Close", id="settings", show=False, priority=True),
        Binding("e", "edit", "Edit the config file", show=False, priority=True),
    ]

    def __init__(self, config: ConfigFile) -> None:
        super().__init__()
        self._config = config
        self._text = Static()

    def compose(self) -> ComposeResult:
        """One scrolling text."""
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content("Settings"), classes="dialog-title")
            with VerticalScroll():
                yield self._text
            yield Static(Content(CLOSING), classes="dialog-hint")

    def on_resize(self) -> None:
        """Fit the rows that there are; the line below the page stays in view."""
        fit_page(self)
        self.call_after_refresh(self._write)

    def on_mount(self) -> None:
        """The dialog is as high as its text."""
        self._write()

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(False)

    def action_edit(self) -> None:
        """Have the config file edited."""
        self.dismiss(True)

    def _write(self) -> None:
        cells = self._text.content_size.width or min(72, max(20, self.app.size.width * 9 // 10 - 6))
        self._text.update(content_of(settings_runs(self._config, cells)))
