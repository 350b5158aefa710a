"""Text into the clipboard: through the terminal (OSC 52) and, where there is one, the desktop's.

The terminal's way works over SSH; some terminals refuse it, so pyperclip is asked, too.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from textual.app import App

from localpaged.tui.figures import grouped
from localpaged.tui.helper_thread import HelperThread
from localpaged.tui.workers import begin

# terminals drop longer sequences, some with everything that follows
MAX_TERMINAL_CHARS = 74_000


class Tell(Protocol):
    """Shows a short message literally."""

    def __call__(self, text: str, *, is_error: bool = False) -> None:
        """Show it."""


HELPER = HelperThread("clipboard")


def copy_and_tell(app: App[Any], text: str, what: str, *, tell: Tell) -> None:
    """Copy, and say what and how much, or why not; of a long text when the desktop has it."""
    copied = f"Copied the {what}, {grouped(len(text))} characters"
    if copy(app, text):
        tell(copied)
        return

    async def copy_long() -> None:
        if await HELPER.ask(partial(_copy_to_desktop, _sendable(text))):
            tell(copied)
        else:
            tell(f"The {what} is too long for the terminal's clipboard.", is_error=True)

    begin(app, copy_long, name="clipboard")


def copy(app: App[Any], text: str) -> bool:
    """Put `text` into every clipboard there is; False when it is too long for the terminal's.

    Then it is in none: whether the desktop takes it is known later.
    """
    text = _sendable(text)
    if len(text) > MAX_TERMINAL_CHARS:
        return False
    app.copy_to_clipboard(text)
    HELPER.put(partial(_copy_to_desktop, text))
    return True


def _sendable(text: str) -> str:
    # a lone surrogate cannot leave the process
    return text.encode("utf-8", "replace").decode("utf-8")


def _copy_to_desktop(text: str) -> bool:
    import pyperclip  # looks for programs: with the first copy, not with the first picture

    try:
        pyperclip.copy(text)
    except pyperclip.PyperclipException:
        # no desktop here: the terminal has the text, if it is short
        return False
    return True
