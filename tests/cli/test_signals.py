"""Ways an answer is broken off from outside, with programs of their own."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localpaged import paths
from localpaged.store.facts import read_facts
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from testkit.commands import TIMEOUT_S, Process, start

ENDLESS: dict[str, Any] = {"script": ["word "], "times": 20_000}


def turn_status() -> TurnStatus | None:
    """How the only answer stands on the disk; None when there is none."""
    if not paths.database_file().exists():
        return None
    db = sqlite3.connect(f"{paths.database_file().as_uri()}?mode=ro", uri=True)
    try:
        row = db.execute("SELECT status FROM turns").fetchone()
        return TurnStatus(row[0]) if row else None
    except sqlite3.OperationalError:
        return None  # the tables are being made
    finally:
        db.close()


def wait_for(is_there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start_ask(*, streams: dict[str, Any] | None = None, **script: Any) -> Process:
    """Ask without anything in stdin."""
    given = {"stdin": subprocess.DEVNULL} | (streams or {})
    return start("ask", "--no-stop-loops", "Count.", streams=given, **(ENDLESS | script))


def first_bytes(process: Process) -> bytes:
    """Wait for the answer; `communicate` would not give what a buffer has taken."""
    assert process.stdout is not None
    return os.read(process.stdout.fileno(), 5)


def num_readable(descriptor: int) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
    return int(count)


def ended(process: Process) -> tuple[int, str, str]:
    """Return the exit code, the rest of stdout, and stderr."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out.decode(), err.decode()


def saved_answer() -> tuple[str, TurnStatus]:
    store = Store.open()
    try:
        conversation = store.conversation(store.chats()[0].id)
        return conversation.messages[-1].text, conversation.turns[-1].status
    finally:
        store.close()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_keeps_the_text_on_stdout_and_in_the_history(listed_home, number, code):
    with start_ask() as process:
        begun = first_bytes(process)
        process.send_signal(number)
        returned, rest, err = ended(process)
    assert (returned, err) == (code, "")
    text, status = saved_answer()
    assert status is TurnStatus.STOPPED
    assert begun.decode() + rest == text + "\n"


def test_a_signal_while_the_model_loads_ends_the_question(listed_home):
    with start_ask(load_s=0.5) as process:
        wait_for(lambda: turn_status() is TurnStatus.QUEUED)
        process.send_signal(signal.SIGINT)
        assert ended(process) == (130, "", "")
    assert turn_status() is TurnStatus.STOPPED
    assert not read_facts(paths.database_file()).chats


def test_a_second_signal_ends_the_program_at_once(listed_home):
    with start_ask(load_s=10 * TIMEOUT_S) as process:
        wait_for(lambda: turn_status() is TurnStatus.QUEUED)
        # The first one waits for the model, which cannot be interrupted while it loads.
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        assert ended(process) == (-signal.SIGINT, "", "")


def test_an_ignored_hangup_stays_ignored(listed_home):
    ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    with start_ask(times=200, streams=ignoring) as process:
        begun = first_bytes(process)
        process.send_signal(signal.SIGHUP)
        code, rest, err = ended(process)
    assert (code, begun.decode() + rest, err) == (0, "word " * 200 + "\n", "")


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_full_disk_behind_stdout_ends_the_answer_with_a_sentence(listed_home, option):
    with (
        Path("/dev/full").open("wb") as full,
        start("ask", *option, "Hi", script=["Hello"], streams={"stdout": full}) as process,
    ):
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert err == b"localpaged: stdout cannot be written: No space left on device.\n"
    assert saved_answer()[0] == "Hello"


def test_a_reader_that_went_away_stops_the_answer_quietly(listed_home):
    reading, writing = os.pipe()
    with start_ask(streams={"stdout": writing}) as process:
        os.close(writing)
        assert os.read(reading, 5) == b"word "
        os.close(reading)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (141, b"")
    assert saved_answer()[1] is TurnStatus.STOPPED


def test_pipes_that_do_not_wait_are_made_to(listed_home):
    (question, asking), (answer, answering) = os.pipe(), os.pipe()
    for descriptor in (question, answering):
        os.set_blocking(descriptor, False)
    streams = {"stdin": question, "stdout": answering}
    with start(
        "ask", "--no-stop-loops", script=["word " * 1_000], times=200, streams=streams
    ) as process:
        os.close(answering)
        os.write(asking, b"Count")
        wait_for(lambda: num_readable(question) == 0)
        os.write(asking, b" to ten.")
        os.close(asking)
        # More than a pipe holds: the program has to wait for this reader.
        wait_for(lambda: num_readable(answer) > 40_000 or process.poll() is not None)
        with os.fdopen(answer, "rb") as reader:
            assert reader.read() == b"word " * 200_000 + b"\n"
        assert process.wait(TIMEOUT_S) == 0
    os.close(question)
    store = Store.open()
    assert store.conversation(store.chats()[0].id).messages[0].text == "Count to ten."
    store.close()
