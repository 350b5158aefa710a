"""What is set, by whom, and where the files are; the way to the config file."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from localpaged.config_file import ConfigFile
from localpaged.tui.paint import content_of
from localpaged.tui.screens.page_dialog import PageDialog
from localpaged.tui.settings_text import settings_runs

CLOSING = "e edits the config file, for the next start. Esc closes."


class SettingsScreen(PageDialog[bool]):
    """Dismisses with True when the config file is to be edited."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # the key that opened it, whichever the user gave it
        Binding("f2", "leave", "Close", id="settings", show=False, priority=True),
        Binding("e", "edit", "Edit the config file", show=False, priority=True),
    ]

    def __init__(self, config: ConfigFile) -> None:
        super().__init__("Settings", CLOSING)
        self._config = config

    def page(self, cells: int) -> Content:
        """See PageDialog."""
        return content_of(settings_runs(self._config, cells))

    def action_edit(self) -> None:
        """Have the config file edited."""
        self.dismiss(True)
