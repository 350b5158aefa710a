"""Where localpaged keeps its files; every folder is made, owner-only, on first write.

`LOCALPAGED_HOME` puts everything below one folder.
"""

from __future__ import annotations

import errno
import os
import stat
import warnings
from pathlib import Path

import platformdirs

from localpaged.errors import ConfigError

APP = "localpaged"
HOME_VARIABLE = "LOCALPAGED_HOME"
PRIVATE_FILE_MODE = 0o600
"""Of files of our own: they are read and written by their owner alone."""


def data_dir() -> Path:
    """Chats and models: what must not be lost."""
    return _home("data") or Path(platformdirs.user_data_dir(APP))


def cache_dir() -> Path:
    """What can be computed again; safe to delete at any time."""
    return _home("cache") or Path(platformdirs.user_cache_dir(APP))


def state_dir() -> Path:
    """Logs and locks."""
    return _home("state") or Path(platformdirs.user_state_dir(APP))


def runtime_dir() -> Path:
    """Sockets of running programs, usually gone with the session."""
    home = _home("run")
    if home is not None:
        return home
    with warnings.catch_warnings():
        # it warns where the session has no folder of its own, and returns one that is as private
        warnings.simplefilter("ignore")
        try:
            return Path(platformdirs.user_runtime_dir(APP))
        except OSError:
            # somebody else has the name of what would be ours in a folder for all
            return state_dir() / "run"


def config_dir() -> Path:
    """What the user writes by hand: the config file."""
    return _home("config") or Path(platformdirs.user_config_dir(APP))


def config_file() -> Path:
    """The settings file; it need not exist."""
    return config_dir() / "config.toml"


def models_dir() -> Path:
    """Model files and folders, one entry a model."""
    return data_dir() / "models"


def database_file() -> Path:
    """The chat history."""
    return data_dir() / "chats.db"


def log_file() -> Path:
    """Where native libraries and warnings print while the screen belongs to the UI."""
    return state_dir() / "localpaged.log"


def log_hint() -> str:
    """Where to read more about what went wrong and was logged."""
    return f"Details are in {log_file()}."


def is_there(path: Path) -> bool:
    """Whether a path leads to something; not, where that cannot be known."""
    try:
        return path.exists()
    except OSError:  # a name that is too long, a folder that may not be looked into
        return False


def ensure_private_dir(folder: Path) -> Path:
    """Make `folder` and its missing parents owner-only, repair `folder` if it is loose; return it.

    For folders of our own: never call it on one that others may share. Raises OSError.
    """
    for missing in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        # what the owner may not do there is left as it is: a folder may be read-only on purpose
        folder.chmod(mode & 0o700)
    return folder


def _home(part: str) -> Path | None:
    home = os.environ.get(HOME_VARIABLE)
    if not home:
        return None
    try:
        return Path(home).expanduser() / part
    except RuntimeError as error:
        raise ConfigError(
            f"{HOME_VARIABLE} names the home of an unknown user: {home}.",
            hint="Give the path of a folder.",
        ) from error
