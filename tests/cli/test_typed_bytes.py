"""What a terminal may send that is no text: the program goes on."""

from __future__ import annotations

import os

import pytest

from testkit.commands import command_line
from testkit.terminals import in_terminal

QUIT = b"\x11"


@pytest.mark.parametrize(
    "typed",
    [
        b"caf\xe9 ",
        b"\xff\xfe\x80",
        b"\xed\xa0\xbd",
        b"\xf0\x9f\x98",
        b"\x1b[200~a\xe9\nb\xff\x1b[201~",
    ],
    ids=["latin-1", "no UTF-8", "surrogate", "half a character", "pasted"],
)
def test_bytes_that_are_no_text_become_marks(listed_home, monkeypatch, typed):
    monkeypatch.setenv("LOCALPAGED_MODEL", "nix")
    with in_terminal(command_line("chat")) as terminal:
        terminal.until_shown("New chat")
        os.write(terminal.fd, typed)
        os.write(terminal.fd, b" and more")
        terminal.until_shown("\ufffd", "and more")
        os.write(terminal.fd, QUIT)
        assert terminal.wait() == 0
