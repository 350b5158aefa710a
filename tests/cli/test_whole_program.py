"""The whole program on a terminal, as a person uses it: forks, answers side by side, a kill."""

from __future__ import annotations

import os
import signal

import pytest

from localpaged import paths
from localpaged.store.store import Store
from testkit.commands import command_line
from testkit.terminals import Terminal, in_terminal

FORK, QUIT, STOP, BLOCKS = "\x06", "\x11", "\x1b", "\x1bOR"
QUESTION = "What is the capital of France?"
LONG = "Tell me a very long story about the sea."


def stop_answer(terminal: Terminal) -> None:
    """End the answer that runs; nobody knows how long it would go on."""
    terminal.send(STOP)
    terminal.until(lambda: "Esc stop" not in terminal.text)


@pytest.mark.model
def test_fork_compare_kill_and_restart(home_with_model):
    # What a model says, and so how long it speaks, differs between processors.
    paths.ensure_private_dir(paths.config_file().parent)
    paths.config_file().write_text("[sampling]\nmin_tokens = 1500\nstop_loops = false\n")
    with in_terminal(command_line("chat"), columns=140, rows=40) as terminal:
        terminal.until_shown("Every answer is computed on this machine")
        terminal.send(QUESTION + "\r")
        terminal.until_shown(f"❯ {QUESTION}", "tok/s")
        stop_answer(terminal)

        terminal.send(FORK)
        terminal.until_shown("↳")
        terminal.send("And of Spain?\r")
        terminal.until_shown("❯ And of Spain?", "cached", "tok/s")
        stop_answer(terminal)

        terminal.send(BLOCKS)
        terminal.until_shown("saved by sharing", "hit rate")
        terminal.send(STOP)
        terminal.until_shown("❯ And of Spain?")

        terminal.send(f"/compare n=2 {LONG}\r")
        terminal.until_shown("compare", "read once", "2 answers", "shared +")
        terminal.resize(80, 24)
        terminal.until_shown("compare", "Enter continue")
        terminal.resize(140, 40)
        terminal.until(lambda: terminal.text.count("tok/s") == 2)
        os.kill(terminal.process.pid, signal.SIGKILL)
        assert terminal.wait() == -signal.SIGKILL

    with in_terminal(command_line("chat"), columns=140, rows=40) as terminal:
        terminal.until_shown("↳", "❯ And of Spain?")
        terminal.send("/compares\r")
        terminal.until_shown(LONG[:20], "2 answers")
        terminal.send("\r")
        terminal.until_shown("compare", LONG)
        terminal.until(lambda: terminal.text.count("interrupted") == 2)
        terminal.send("\r")  # go on with the first
        terminal.until_shown(f"❯ {LONG}", "F5 continues")
        terminal.send(QUIT)
        assert terminal.wait() == 0

    log = paths.log_file().read_text() if paths.log_file().exists() else ""
    assert "Traceback" not in log
    store = Store.open()
    listed = store.chats()
    store.close()
    assert len(listed) == 3  # the first, its fork, the answer that was kept; the other is hidden
