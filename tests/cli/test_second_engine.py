"""A model that is loaded beside another localpaged tells of short memory, once and quietly."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from localpaged import paths
from localpaged.cli.answer import JsonAnswer, TextAnswer
from localpaged.cli.second_engine import SHORT_BYTES, shortage
from localpaged.engine.events import LoadEvent
from localpaged.memory_plan import MEMORY_NEEDED

NEEDED = 600 << 20


def loading(free_bytes: int, stage: str = MEMORY_NEEDED) -> LoadEvent:
    return LoadEvent(stage, NEEDED, free_bytes, "bytes")


@pytest.fixture
def listen(home):
    """Let a program of some number listen, as one with an engine does."""
    folder = paths.ensure_private_dir(paths.runtime_dir())
    listeners = []

    def listen(name):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.relpath(folder / f"{name}.sock"))
        listener.listen()
        listeners.append(listener)

    yield listen
    for listener in listeners:
        listener.close()


def test_short_memory_beside_another_program_is_told_with_numbers(listen):
    listen(17)
    told = shortage(loading(NEEDED + SHORT_BYTES - 1))
    assert "localpaged 17 has a model" in told
    assert "0.59 GiB of 1.59 GiB" in told and "chat --serve" in told
    assert shortage(loading(NEEDED // 2)), "what does not fit at all is told as well"
    listen("18-2")
    assert "localpaged 17 and 18 have a model" in shortage(loading(NEEDED))


def test_enough_memory_another_stage_or_nobody_else_is_nothing_to_tell(listen):
    assert shortage(loading(NEEDED)) == ""
    listen(os.getpid())
    assert shortage(loading(NEEDED)) == "", "it is this program itself"
    listen(17)
    assert shortage(loading(NEEDED + SHORT_BYTES)) == ""
    assert shortage(loading(NEEDED, "Reading weights")) == ""


def test_a_program_that_is_gone_counts_for_nothing(listen, home):
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(os.path.relpath(paths.runtime_dir() / "17.sock"))
    assert shortage(loading(NEEDED)) == ""


@pytest.mark.parametrize("kind", [TextAnswer, JsonAnswer])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_it_is_for_people_at_a_terminal(monkeypatch, capsys, kind, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    answer = kind()
    answer.status("Starting torch …")
    capsys.readouterr()
    answer.note("Memory is short: \x1b[31m")
    written = capsys.readouterr()
    is_told = is_terminal and kind is TextAnswer
    assert ("Memory is short" in written.err, written.out) == (is_told, "")
    assert "\x1b[31m" not in written.err
