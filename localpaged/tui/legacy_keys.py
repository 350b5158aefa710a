"""Keys that Textual's parser takes for others in terminals without the Kitty keyboard protocol."""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS


class _Key(Enum):
    ALT_ENTER = "alt+enter"


def teach_alt_enter() -> None:
    """Tell Alt+Enter (escape, carriage return) from Enter, which would send the message."""
    sequences = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    sequences["\x1b\r"] = (_Key.ALT_ENTER,)
