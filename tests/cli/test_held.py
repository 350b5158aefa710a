"""A program that is stopped and goes on, as shells, debuggers and supervisors do it."""

from __future__ import annotations

import os
import signal
import termios
from pathlib import Path

import pytest

from localpaged import paths
from testkit.commands import TIMEOUT_S, command_line
from testkit.terminals import Terminal, in_terminal

QUIT = "\x11"
GIVEN_BACK, TAKEN = b"\x1b[?1049l", b"\x1b[?1049h"


def has_stopped(terminal: Terminal) -> bool:
    """Whether the process is held by a signal."""
    stat = Path(f"/proc/{terminal.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def echoes(terminal: Terminal) -> bool:
    """Whether the terminal is as a shell wants it."""
    return bool(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)


@pytest.mark.parametrize(
    "signals",
    [
        (signal.SIGTSTP, signal.SIGCONT),
        (signal.SIGTSTP, signal.SIGCONT, signal.SIGSTOP, signal.SIGCONT, signal.SIGCONT),
    ],
    ids=["asked", "asked, forced and never"],
)
def test_a_program_that_was_held_goes_on_and_gives_the_terminal_back(
    listed_home, monkeypatch, signals
):
    monkeypatch.setenv("LOCALPAGED_MODEL", "nix")
    with in_terminal(command_line("chat")) as terminal:
        terminal.until_shown("New chat")
        for each in signals:
            before = terminal.output.count(TAKEN)
            os.kill(terminal.process.pid, each)
            if each is signal.SIGCONT:
                terminal.until(lambda before=before: terminal.output.count(TAKEN) > before)
            else:
                terminal.until(lambda: has_stopped(terminal))
        assert not echoes(terminal)
        assert terminal.output.count(TAKEN) == terminal.output.count(GIVEN_BACK) + 1
        terminal.send("every letter of it arrives once")
        terminal.until_shown("❯ every letter of it arrives once")
        terminal.send(QUIT)
        assert terminal.wait() == 0
        assert echoes(terminal)


def test_a_terminal_that_is_closed_ends_the_program_and_is_not_taken_again(
    listed_home, monkeypatch
):
    monkeypatch.setenv("LOCALPAGED_MODEL", "nix")
    with in_terminal(command_line("chat")) as terminal:
        terminal.until_shown("New chat")
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, terminal.fd)  # closes our side of it
        os.close(nothing)
        assert terminal.process.wait(TIMEOUT_S) == 0
    assert paths.log_file().read_text().count("textual-output ended with an error") <= 1
