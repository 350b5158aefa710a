"""The whole program on a terminal: the chat with the real model, `ask` with a scripted one."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import termios

import pytest

from localpaged import paths
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from testkit.commands import command_line
from testkit.terminals import Terminal, in_terminal

NEW_CHAT, QUIT, CONTINUE, STOP = "\x0e", "\x11", "\x1b[15~", "\x1b"
LONG = "Tell me a very long story about the sea."
CONTROL = re.compile(rb"\x1b[\[\]()#][0-9;:?<=>$]*[ -~]?|\x1b[=>]|[\r\n]")


def echoes(terminal: Terminal) -> bool:
    """Whether the terminal is as a shell wants it."""
    return bool(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)


def saved_text() -> str:
    """What the history on the disk has of the open answer."""
    db = sqlite3.connect(f"{paths.database_file().as_uri()}?mode=ro", uri=True)
    try:
        row = db.execute("SELECT text FROM partials").fetchone()
    except sqlite3.OperationalError:
        return ""  # the tables are being made at this moment
    finally:
        db.close()
    return str(row[0]) if row else ""


def all_turns() -> list[tuple[str, TurnStatus, int]]:
    """Question, status and cached tokens of every turn, as the history has them."""
    store = Store.open()
    found = []
    for chat in reversed(store.chats()):
        conversation = store.conversation(chat.id)
        texts = {message.hash: message.text for message in conversation.messages}
        found += [
            (texts[turn.parent_hash or ""], turn.status, turn.cached_tokens or 0)
            for turn in conversation.turns
        ]
    store.close()
    return found


def test_ask_shows_what_it_does_then_the_answer_then_its_cost(listed_home):
    pieces = ["First ", "line.", "\nSecond", " line"]
    with in_terminal(command_line("ask", "Hi", script=pieces, load_s=0.3)) as terminal:
        assert terminal.wait() == 0
    assert b"reading weights 43% \xe2\x80\xa6" in terminal.output
    assert terminal.text.strip().splitlines()[:2] == ["First line.", "Second line"]
    (cost,) = terminal.text.strip().splitlines()[2:]
    assert re.fullmatch(
        r"4 tokens · \d+ tok/s · first after [\d.]+ s · prompt 0 cached \+ 5 new", cost
    )


def test_ctrl_c_on_a_terminal_leaves_the_text_and_a_line_of_its_own(listed_home):
    command = command_line("ask", "--no-stop-loops", "Count.", script=["word "], times=20_000)
    with in_terminal(command) as terminal:
        terminal.until_shown("word word")
        terminal.send("\x03")
        assert terminal.wait() == 130
    assert terminal.output.endswith(b"\n")
    assert "Traceback" not in terminal.text
    assert "^C" in terminal.text


def test_a_model_that_is_not_there_is_told_in_the_chat(ready_home, monkeypatch):
    monkeypatch.setenv("LOCALPAGED_MODEL", "nix")
    with in_terminal(command_line()) as terminal:
        terminal.until_shown("There is no model 'nix' here.", "Models here: smollm2-135m-instruct")
        terminal.send(QUIT)
        assert terminal.wait() == 0


def test_a_home_that_cannot_be_written_is_told_before_the_screen_is_taken(home, monkeypatch):
    (home / "file").touch()
    monkeypatch.setenv(paths.HOME_VARIABLE, str(home / "file"))
    with in_terminal(command_line("chat")) as terminal:
        assert terminal.wait() == 6
    assert "cannot be written: Not a directory." in terminal.text.replace("\n", "")
    assert b"\x1b[?1049h" not in terminal.output
    assert "Traceback" not in terminal.text


def test_a_history_that_cannot_be_read_is_told_when_the_terminal_is_given_back(ready_home):
    paths.ensure_private_dir(paths.database_file().parent)
    paths.database_file().write_bytes(b"this is no database, and long enough to see that" * 99)
    with in_terminal(command_line("chat")) as terminal:
        assert terminal.wait() == 6
        assert echoes(terminal)
    (told,) = terminal.output.rpartition(b"\x1b[?1049l")[2:]
    assert b"localpaged: " in told
    assert str(paths.database_file()) in CONTROL.sub(b"", told).decode()
    assert b"Traceback" not in told


@pytest.mark.model
def test_several_chats_on_a_terminal_and_a_clean_way_out(home_with_model):
    with in_terminal(command_line("chat")) as terminal:
        assert echoes(terminal)
        terminal.until_shown("Every answer is computed on this machine")
        assert not echoes(terminal)
        terminal.send("What is the capital of France?\r")
        terminal.until_shown("❯ What is the capital of France?", "waits for the model")
        terminal.until_shown("tok/s")
        terminal.send(STOP)  # at a temperature above zero nobody knows how long it would go on
        terminal.until(lambda: "Esc stop" not in terminal.text)
        terminal.send("And of Spain?\r")
        terminal.until_shown("❯ And of Spain?", "Esc stop", "tok/s")
        terminal.send(STOP)
        terminal.until(lambda: "Esc stop" not in terminal.text)
        terminal.send(NEW_CHAT)
        terminal.until_shown("New chat")
        terminal.send(LONG + "\r")
        terminal.until_shown(f"❯ {LONG}", "tok/s")
        terminal.send(NEW_CHAT)
        terminal.until_shown("New chat", "1 other chat generating")
        terminal.send("List all the countries of the world.\r")
        terminal.until_shown("❯ List all the countries", "tok/s", "1 other chat generating")
        terminal.resize(80, 24)
        terminal.until(lambda: terminal.text.lstrip().startswith("localpaged"))
        terminal.until_shown("❯ List all the countries", "Enter send")
        terminal.send(QUIT)
        terminal.until_shown("2 answers are still running")
        terminal.send("y")
        assert terminal.wait() == 0
        assert echoes(terminal)
    inside, left_screen, rest = terminal.output.rpartition(b"\x1b[?1049l")
    assert left_screen
    assert b"\x1b[?25h" in inside[inside.rindex(b"\x1b[?25l") :] + rest
    assert CONTROL.sub(b"", rest) == b""
    log = paths.log_file().read_text() if paths.log_file().exists() else ""
    assert "Traceback" not in log
    questions = [question for question, _, _ in all_turns()]
    assert questions == [
        "What is the capital of France?",
        "And of Spain?",
        LONG,
        "List all the countries of the world.",
    ]
    assert [status for _, status, _ in all_turns()][2:] == [TurnStatus.STOPPED] * 2
    (_, _, cached) = all_turns()[1]
    assert cached >= 32  # whole blocks of the system prompt and the first question


@pytest.mark.model
def test_after_a_crash_the_answer_is_there_and_goes_on(ready_home):
    with in_terminal(command_line("chat")) as terminal:
        terminal.until_shown("Every answer is computed on this machine")
        terminal.send(LONG + "\r")
        terminal.until(lambda: paths.database_file().exists() and len(saved_text()) > 20)
        os.kill(terminal.process.pid, signal.SIGKILL)
        assert terminal.wait() == -signal.SIGKILL
    kept = saved_text()
    assert len(kept) > 20
    beginning = kept[:20].strip()

    with in_terminal(command_line("chat")) as terminal:
        terminal.until_shown(beginning, "interrupted", "F5 continues")
        terminal.send(CONTINUE)
        terminal.until_shown(beginning, "tok/s")
        terminal.until(lambda: len(saved_text()) > len(kept))
        terminal.send(STOP)
        terminal.until_shown("stopped")
        terminal.send(QUIT)
        assert terminal.wait() == 0
    store = Store.open()
    conversation = store.conversation(store.chats()[0].id)
    store.close()
    assert conversation.messages[-1].text.startswith(kept)
    assert len(conversation.messages[-1].text) > len(kept)
    assert [turn.status for turn in conversation.turns] == [TurnStatus.STOPPED]


def test_an_editor_has_the_terminal_and_gives_it_back(listed_home, tmp_path, monkeypatch):
    program = tmp_path / "editor"
    program.write_text('#!/bin/sh\necho in the editor; read line; echo "$line" >> "$1"\n')
    program.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(program))
    with in_terminal(command_line("chat", script=["ok"])) as terminal:
        terminal.until_shown("Ask anything")
        terminal.send("draft ")
        terminal.until_shown("draft")
        terminal.send("\x07")
        terminal.until_shown("in the editor")
        assert echoes(terminal)
        terminal.send("of mine\r")
        terminal.until_shown("draft of mine", "^P commands")
        assert not echoes(terminal)
        terminal.send(QUIT)
        assert terminal.wait() == 0
        assert echoes(terminal)
