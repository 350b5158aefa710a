"""The page of settings, and the config file in the user's own editor."""

from __future__ import annotations

import stat
from pathlib import Path

from localpaged import paths
from localpaged.atomic_file import write_atomically
from localpaged.config_file import MAX_BYTES, ConfigFile, read_config
from localpaged.errors import ConfigError, LocalPagedError
from localpaged.plain_text import visible
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.editor import edited
from localpaged.tui.screens.settings import SettingsScreen

FIRST_LINES = (
    "# localpaged reads this file when it starts. F2 in the chat and `localpaged config` list\n"
    "# what can be set, `localpaged config --template` with its meaning.\n"
)


class SettingsCommands(CommandGroup):
    """Shows what is set; changes no setting of this run. UI thread only."""

    def show(self) -> None:
        """Show the page; a file that cannot be read leads to the editor all the same."""
        path = paths.config_file()
        try:
            config = read_config()
        except ConfigError as error:
            self._app.tell_error(error)
            config = ConfigFile(path)

        def answered(is_edited: bool | None) -> None:
            if is_edited:
                self.edit(path)

        self._app.push_screen(SettingsScreen(config), answered)

    def edit(self, path: Path) -> None:
        """Have the file edited, and say at once what is wrong with it; what is written is kept."""
        try:
            before = _read(path)
            after = edited(before, suspended=self._app.suspend)
            if after == before:
                return
            _write(path, after)
            read_config()
        except OSError as error:
            told = f"{path} cannot be written: {error.strerror}."
            self._app.tell_error(ConfigError(told))
        except LocalPagedError as error:
            self._app.tell_error(error)
        else:
            self._app.tell(f"Saved {visible(str(path))}. It holds from the next start.", for_s=6.0)


def _read(path: Path) -> str:
    """Return the file's text, or what a new one begins with. Raises ConfigError."""
    if path.exists() and not path.is_file():
        # opening a pipe would wait for ever
        raise ConfigError(f"{path} is not a file.", hint="Put a text file in its place.")
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return FIRST_LINES
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path} is longer than {MAX_BYTES:,} bytes.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8.", hint="Save it as UTF-8.") from error


def _write(path: Path, text: str) -> None:
    """Put the text in the file's place, whole or not at all. Raises OSError."""
    paths.ensure_private_dir(path.parent)
    # a link to a file elsewhere stays one
    target = path.resolve()
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else paths.PRIVATE_FILE_MODE
    write_atomically(target, text.encode("utf-8", "replace"), mode=mode, is_synced=False)
