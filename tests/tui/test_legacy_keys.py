"""Keys of terminals without the Kitty keyboard protocol arrive as what they are."""

from __future__ import annotations

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key

from localpaged.tui.legacy_keys import teach_alt_keys


@pytest.mark.parametrize(
    ("sent", "key"),
    [("\x1b\r", "alt+enter"), *((f"\x1b{n}", f"alt+{n}") for n in range(1, 10)), ("1", "1")],
)
def test_alt_is_told_from_what_it_is_pressed_with(sent: str, key: str):
    teach_alt_keys()
    keys = [event.key for event in XTermParser().feed(sent) if isinstance(event, Key)]
    assert keys == [key]
