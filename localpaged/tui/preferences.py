"""What the app remembers of how the user wants it to look, from one start to the next."""

from __future__ import annotations

import json
from pathlib import Path

from localpaged import paths
from localpaged.atomic_file import write_atomically

MAX_BYTES = 4_096


def preferences_file() -> Path:
    """A small JSON object; safe to delete at any time."""
    return paths.state_dir() / "look.json"


def saved_theme() -> str:
    """The name of the theme that was chosen last; empty when there is none or it is damaged."""
    theme = _saved().get("theme")
    return theme if isinstance(theme, str) else ""


def save_theme(theme: str) -> None:
    """Remember a theme. Raises OSError."""
    _save("theme", theme)


def shows_thoughts() -> bool:
    """Whether reasoning that is over stays unfolded."""
    return _saved().get("thoughts") is True


def save_shows_thoughts(is_shown: bool) -> None:
    """Remember whether reasoning stays unfolded. Raises OSError."""
    _save("thoughts", is_shown)


def _saved() -> dict[str, object]:
    try:
        with preferences_file().open("rb") as file:
            saved = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        # a look is not worth a message, and the next choice writes the file anew
        return {}
    return saved if isinstance(saved, dict) else {}


def _save(name: str, value: str | bool) -> None:
    path = preferences_file()
    choices = {**_saved(), name: value}
    paths.ensure_private_dir(path.parent)
    # the screen does not wait for the disk, and a look that a power cut takes away is no loss
    write_atomically(path, json.dumps(choices).encode(), is_synced=False)
