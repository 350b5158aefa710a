"""What colours the chat asks a terminal for: those it has, and none where none are wanted."""

from __future__ import annotations

import re

import pytest

from testkit.commands import command_line
from testkit.terminals import in_terminal

SGR = re.compile(rb"\x1b\[([0-9;]*)m")


def colours(output: bytes) -> set[int]:
    """Every colour that was asked for: 30 to 37, 38 for more than those, and so on."""
    found: set[int] = set()
    for codes in SGR.findall(output):
        numbers = [int(code) for code in codes.split(b";") if code]
        found |= {n for n in numbers[:1] if n != 0}
        if 38 in numbers or 48 in numbers:
            found |= {38}
        else:
            found |= set(numbers)
    return {n for n in found if 30 <= n <= 38 or 40 <= n <= 48 or 90 <= n <= 107}


@pytest.mark.parametrize(
    ("env", "is_many", "is_any"),
    [
        ({"NO_COLOR": "1"}, False, False),
        ({"TERM": "xterm", "COLORTERM": ""}, False, True),
        ({}, True, True),
    ],
)
def test_a_terminal_gets_the_colours_it_has(listed_home, env, is_many, is_any):
    with in_terminal(command_line("chat", script=["an answer"]), env=env) as terminal:
        terminal.until_shown("Ask anything")
        terminal.send("hello\r")
        terminal.until_shown("an answer", "TTFT")
        terminal.send("\x11")
        assert terminal.wait() == 0
    found = colours(terminal.output)
    assert (38 in found) is is_many
    assert bool(found) is is_any
