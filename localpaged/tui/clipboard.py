"""Text into the clipboard: through the terminal (OSC 52) and, where there is one, the desktop's.

The terminal's way works over SSH; some terminals refuse it, so pyperclip is asked too if installed.
"""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from textual.app import App

from localpaged.tui.figures import grouped

# terminals drop longer sequences, some with everything that follows
MAX_TERMINAL_CHARS = 74_000
DESKTOP_LIBRARY = "pyperclip"


class Tell(Protocol):
    """Shows a short message literally."""

    def __call__(self, text: str, *, is_error: bool = False) -> None:
        """Show it."""


def copy_and_tell(app: App[Any], text: str, what: str, *, tell: Tell) -> None:
    """Copy, and say what and how much."""
    if copy(app, text):
        tell(f"Copied the {what}, {grouped(len(text))} characters")
    else:
        tell(f"The {what} is too long for the terminal's clipboard.", is_error=True)


def copy(app: App[Any], text: str) -> bool:
    """Put `text` into every clipboard there is; False when none takes a text of that length."""
    # a lone surrogate cannot leave the process
    text = text.encode("utf-8", "replace").decode("utf-8")
    is_short = len(text) <= MAX_TERMINAL_CHARS
    if is_short:
        app.copy_to_clipboard(text)
    has_desktop = find_spec(DESKTOP_LIBRARY) is not None
    if has_desktop:
        # the desktop's helper program may take its time
        threading.Thread(
            target=_copy_to_desktop, args=(text,), name="clipboard", daemon=True
        ).start()
    return is_short or has_desktop


def _copy_to_desktop(text: str) -> None:
    library: Any = import_module(DESKTOP_LIBRARY)
    try:
        library.copy(text)
    except library.PyperclipException:
        # no desktop here: the terminal has the text
        return
