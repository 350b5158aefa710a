"""Nothing leaves the program but text, one sentence and an exit code; tracebacks are in the log."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import stat
import struct
import termios
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from localpaged import paths, wiring
from localpaged.cli import asking
from localpaged.log_file import MAX_LOG_BYTES, append_to_log, logging_to_file
from testkit.commands import Process, call, run, start
from testkit.past_chats import write_chat

SECRET = "a question nobody else should read"


@pytest.fixture
def broken(monkeypatch):
    """Let `ask` fail as no part of it should."""

    def fail(question, options):
        raise ZeroDivisionError("division\x1b[31m by zero")

    monkeypatch.setattr(asking, "run_ask", fail)


def test_an_unexpected_error_is_a_sentence_and_its_traceback_is_in_the_log(home, broken):
    done = call("ask", SECRET)
    log = paths.log_file()
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "localpaged: Something went wrong inside localpaged: "
        f"ZeroDivisionError: division␛[31m by zero.\nhint: Details are in {log}.\n"
    )
    text = log.read_text()
    assert "Traceback (most recent call last)" in text
    assert "ZeroDivisionError" in text
    assert SECRET not in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_an_engine_that_breaks_is_a_sentence_and_its_traceback_is_in_the_log(
    ready_home, monkeypatch
):
    def load_broken(*parts, **options):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(wiring, "load_core", load_broken)
    done = call("ask", "Hi")
    assert (done.code, done.out) == (5, "")
    assert "The engine stopped: ZeroDivisionError: division by zero" in done.err
    assert "Traceback" not in done.err
    assert "Traceback (most recent call last)" in paths.log_file().read_text()


def test_a_log_that_cannot_be_written_changes_no_exit_code(home, broken):
    paths.state_dir().parent.mkdir(exist_ok=True)
    paths.state_dir().touch()
    done = call("ask", SECRET)
    assert done.code == 1
    assert "ZeroDivisionError" in done.err
    assert f"The log {paths.log_file()} cannot be written" in done.err


@pytest.mark.filterwarnings("default:old function")
def test_warnings_errors_and_dead_threads_are_in_the_log_not_on_the_terminal(home, capfd):
    hook = threading.excepthook
    with logging_to_file():
        logging.getLogger("localpaged.test").warning("the disk is slow")
        warnings.warn("old function", UserWarning, stacklevel=1)
        thread = threading.Thread(target=lambda: 1 / 0, name="worker")
        thread.start()
        thread.join()
    logging.getLogger("localpaged.test").info("nobody reads this")
    assert capfd.readouterr() == ("", "")
    text = paths.log_file().read_text()
    for part in ("the disk is slow", "old function", "worker ended", "ZeroDivisionError"):
        assert part in text
    assert threading.excepthook is hook


def test_the_log_stays_short_and_private(home):
    append_to_log("x" * MAX_LOG_BYTES)
    paths.log_file().chmod(0o644)
    append_to_log("yy")
    append_to_log("zz")
    assert paths.log_file().read_text() == "zz"
    assert stat.S_IMODE(paths.log_file().stat().st_mode) == 0o600
    assert paths.log_file().with_suffix(".old.log").stat().st_size == MAX_LOG_BYTES + 2


def test_without_anything_to_tell_no_log_is_made(home):
    assert call("models", "list").code == 0
    assert not paths.log_file().exists()


def test_python_can_run_the_package():
    done = run("--version")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("localpaged, version ")


@pytest.mark.parametrize("arguments", [["ask", "--help"], ["models", "list", "--json"]])
def test_a_reader_that_went_away_ends_every_command_quietly(home, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    with start(*arguments, streams={"stdout": writing}) as process:
        os.close(writing)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (141, b"")


@pytest.mark.parametrize("arguments", [["--version"], ["models", "list", "--json"]])
def test_a_full_disk_behind_stdout_is_told(home, arguments):
    with Path("/dev/full").open("wb") as full:
        done = run(*arguments, streams={"stdout": full})
    assert done.code == 1
    assert done.err == "localpaged: stdout cannot be written: No space left on device.\n"


def without(number: int) -> dict[str, Any]:
    name = ("stdin", "stdout", "stderr")[number]
    return {name: None, "preexec_fn": lambda: os.close(number)}


def test_a_closed_stdout_is_told(home):
    done = run("models", "list", streams=without(1))
    assert done.code == 2
    assert done.err.startswith("localpaged: stdout is closed")


def test_a_closed_stdin_is_an_empty_one(home):
    done = run("ask", streams=without(0))
    assert done.code == 2
    assert "There is no question." in done.err


def test_a_closed_stderr_leaves_the_exit_code(home):
    assert run("ask", streams=without(2)).code == 2


def test_what_the_encoding_of_stdout_lacks_is_an_escape(home, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    entry = home / "data" / "models" / "tiny.json"
    entry.parent.mkdir(parents=True)
    entry.write_text('{"path": "/nowhere", "origin": "\\u00e9 \\u2014"}')
    with start("models", "list") as process:
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert b"\xe9 \\u2014" in out


def test_words_are_utf_8_whatever_the_locale_makes_of_them(listed_home, monkeypatch):
    chat_id = write_chat([("a café", "b")], title="T")
    for name, value in (("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")):
        monkeypatch.setenv(name, value)
    assert run("history", "rename", chat_id, "Ümläut", "😀").code == 0
    (chat,) = json.loads(run("history", "list", "--json").out)
    assert chat["title"] == "Ümläut 😀"
    assert json.loads(run("history", "search", "café", "--json").out)["hits"]
    assert run("ask", "Is this", "é?", script=["yes"]).code == 0
    assert json.loads(run("history", "search", "this é", "--json").out)["hits"]


def test_bytes_that_are_no_utf_8_are_marks_in_words(listed_home):
    text = os.fsdecode(b"Hi \xff")
    done = run("ask", "--regex", text, "--system", text, text, script=["yes"])
    assert (done.code, done.err) == (0, "")
    assert json.loads(run("history", "search", "Hi \ufffd", "--json").out)["hits"]


def test_ctrl_c_while_it_reads_ends_it_at_once(home):
    with start("ask") as process:
        assert process.stdin is not None
        process.stdin.write(b"The first half")
        process.stdin.flush()
        wait_until_reading(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert err.strip() == b""


def wait_until_reading(process: Process) -> None:
    """Wait until the program has taken what is in its stdin."""
    assert process.stdin is not None
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        (waiting,) = struct.unpack(
            "i", fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, b"\0" * 4)
        )
        if not waiting:
            return
        time.sleep(0.01)
    raise AssertionError("it never read")
