"""kill -9 at any time; several programs on one history."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.errors import ChatError
from localpaged.store.database import connect, open_database
from localpaged.store.locks import RunLock, is_held
from localpaged.store.recovery import start_run
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from localpaged.store.writes import Write
from testkit.builders import WAIT_S, make_chat, make_service, make_turn

ROOT = Path(__file__).parents[2]

# Answers without end, and says how long the answer is and when that was.
STREAMING = """
import sys, time
from pathlib import Path
from testkit.builders import make_service
from testkit.scripted_engine import ScriptedEngine
from localpaged.chat.events import TurnText

service, engine, recorder = make_service(
    Path(sys.argv[1]), engine=ScriptedEngine(lambda request: ["word "] * 1_000_000)
)
length = 0
def tell(events):
    global length
    for event in events:
        if isinstance(event, TurnText):
            length += len(event.text)
            print(time.monotonic(), length, flush=True)
service.subscribe(tell)
chat = service.new_chat()
service.send(chat.id, "question")
service.send(chat.id, "waits behind")
engine.start(tokens_per_s=100)
time.sleep(60)
"""

# Holds an open answer and never goes on.
HOLDING = """
import sys
from pathlib import Path
from testkit.builders import make_service
service, engine, recorder = make_service(Path(sys.argv[1]))
turn = service.send(service.new_chat().id, "question")
engine.wait_submitted(1)
engine.step()
service._store.writer.flush()
print(turn.chat_id, turn.id, flush=True)
sys.stdin.read()
"""


@contextmanager
def program(script: str, database: Path) -> Iterator[subprocess.Popen[str]]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    with subprocess.Popen(
        [sys.executable, "-c", script, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str]) -> Iterator[list[str]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.split()


def test_kill_loses_at_most_one_second_of_text_and_the_answer_can_be_continued(
    database_path: Path,
):
    told: list[tuple[float, int]] = []
    with program(STREAMING, database_path) as process:
        for when, length in lines(process):
            told.append((float(when), int(length)))
            if told[-1][0] - told[0][0] > 1.8:
                break
        killed_at = time.monotonic()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)

    service, engine, recorder = make_service(database_path)
    (chat,) = service.chats()
    question, answer, waited, unanswered = service.transcript(chat.id)

    assert question.message is not None and question.message.text == "question"
    assert answer.message is not None and answer.turn is not None
    assert answer.turn.status is TurnStatus.INTERRUPTED
    assert answer.message.text == "word " * (len(answer.message.text) // 5)
    must_be_there = max(length for when, length in told if when <= killed_at - 1.0)
    assert len(answer.message.text) >= must_be_there > 0
    assert answer.turn.completion_tokens == len(answer.message.text) // 5
    assert waited.message is not None and waited.message.text == "waits behind"
    assert unanswered.turn is not None and unanswered.turn.status is TurnStatus.INTERRUPTED

    turn = service.continue_turn(unanswered.turn.id)
    engine.wait_submitted(1)
    engine.run_until_idle()
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    service.close()


def test_a_living_program_keeps_its_turns_and_a_killed_one_loses_them(database_path: Path):
    with program(HOLDING, database_path) as other:
        chat_id, turn_id = next(lines(other))

        service, _, _ = make_service(database_path)
        assert service.transcript(chat_id)[-1].turn is not None
        assert service._store.num_interrupted == 0
        assert service._store.turn(turn_id).status is TurnStatus.PREFILL
        with pytest.raises(ChatError, match="another localpaged"):
            service.send(chat_id, "me too")
        with pytest.raises(ChatError, match="another localpaged"):
            service.continue_turn(turn_id)
        service.close()

        other.kill()
        other.wait(WAIT_S)

    store = Store.open(database_path)
    assert store.num_interrupted == 1
    assert store.turn(turn_id).status is TurnStatus.INTERRUPTED
    assert not store.is_answered_elsewhere(chat_id)
    store.close()


def test_a_process_id_that_was_given_to_somebody_else_is_no_sign_of_life(database_path: Path):
    dead = Store.open(database_path)
    chat = make_chat(dead, texts=["q"])
    dead.submit(Write(turns=(make_turn(parent_hash=chat.tip_hash),))).result(WAIT_S)
    dead.close()  # the turn was left open, so the run's row stays, and its id is of a live process
    assert connect(database_path).execute("SELECT pid FROM runs").fetchall() == [(os.getpid(),)]

    store = Store.open(database_path)
    assert store.num_interrupted == 1
    store.close()


def test_a_clean_end_leaves_no_run_behind(database_path: Path):
    Store.open(database_path).close()
    assert connect(database_path).table("runs").count == 0
    assert list((paths.state_dir() / "runs").iterdir()) == []


def test_an_interrupted_sibling_does_not_move_the_chat(database_path: Path):
    store = Store.open(database_path)
    chat = make_chat(store, texts=["q", "a", "q2"])
    first = store.conversation("chat").messages[0]
    store.submit(Write(turns=(make_turn(parent_hash=first.hash),))).result(WAIT_S)
    store.close()

    store = Store.open(database_path)
    assert store.num_interrupted == 1
    assert store.chat("chat").tip_hash == chat.tip_hash
    store.close()


def test_a_turn_that_was_stopped_while_it_waited_stays_stopped(database_path: Path):
    store = Store.open(database_path)
    make_chat(store, texts=["q", "a"])
    stopped = make_turn(question="waited", status=TurnStatus.STOPPED)
    store.submit(Write(turns=(stopped,))).result(WAIT_S)
    store.close()

    store = Store.open(database_path)
    assert store.turn("turn").status is TurnStatus.STOPPED
    assert [m.text for m in store.conversation("chat").messages] == ["q", "a", "waited", ""]
    store.close()


def test_a_lock_is_held_as_long_as_its_owner_lives():
    lock = RunLock("run")
    assert is_held(lock.path)
    assert is_held(lock.path)
    lock.release()
    lock.release()
    assert not is_held(lock.path)


def test_a_lock_file_without_owner_is_dead(database_path: Path):
    db, _ = open_database(database_path)
    lock = RunLock("dead")
    start_run(db, lock, run_id="dead", pid=1)
    lock.release()
    lock.path.touch()
    assert not is_held(lock.path)
    assert start_run(db, RunLock("next"), run_id="next", pid=1) == 0
    assert [row["id"] for row in db.table("runs").rows] == ["next"]
    assert not lock.path.exists()
