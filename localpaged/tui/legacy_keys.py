"""Keys that Textual's parser takes for others in terminals without the Kitty keyboard protocol."""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS


class _Key(Enum):
    ALT_ENTER = "alt+enter"
    ALT_1 = "alt+1"
    ALT_2 = "alt+2"
    ALT_3 = "alt+3"
    ALT_4 = "alt+4"
    ALT_5 = "alt+5"
    ALT_6 = "alt+6"
    ALT_7 = "alt+7"
    ALT_8 = "alt+8"
    ALT_9 = "alt+9"


def teach_alt_keys() -> None:
    """Tell Alt+Enter from Enter, which would send the message, and let Alt with a digit be a key.

    Textual takes the latter for what the Option key of one system writes: Alt+1 for ¡.
    """
    sequences = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    for key in _Key:
        name = key.value.removeprefix("alt+")
        sequences["\x1b" + ("\r" if name == "enter" else name)] = (key,)
