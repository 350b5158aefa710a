"""kill -9 in the middle of going back: the tip is where the user was, and nothing is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from localpaged.chat.events import TurnEnded
from localpaged.store.rows import TurnStatus
from testkit.builders import WAIT_S, make_service

ROOT = Path(__file__).parents[2]
BEGIN = """
import sys
from pathlib import Path
from testkit.builders import make_service
from testkit.scripted_engine import ScriptedEngine

answers = iter(["old", "new!"])
service, engine, recorder = make_service(
    Path(sys.argv[1]), engine=ScriptedEngine(lambda request: tuple(next(answers)))
)
chat = service.new_chat()
first = service.send(chat.id, "q1")
engine.wait_submitted(1)
"""
HOLD = """
service._store.writer.flush()
print(chat.id, flush=True)
sys.stdin.read()
"""


def crash(database: Path, script: str) -> str:
    """Run a program, kill it when it holds; return its chat."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + script + HOLD, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        chat_id = process.stdout.readline().strip()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
    return chat_id


def test_a_kill_while_regenerating_leaves_both_answers_and_the_new_one_goes_on(
    database_path: Path,
):
    chat_id = crash(
        database_path,
        """
engine.run_until_idle()
recorder.wait_ended(first.id)
service.regenerate(first.id)
engine.wait_submitted(2)
for _ in range(4):
    engine.step()
""",
    )

    service, engine, recorder = make_service(database_path)
    _, answer = service.transcript(chat_id)
    assert answer.message is not None and answer.turn is not None and answer.siblings is not None
    assert (answer.message.text, answer.turn.status) == ("new", TurnStatus.INTERRUPTED)
    assert (answer.siblings.place, len(answer.siblings.keys)) == (1, 2)
    turn = service.continue_turn(answer.turn.id)
    engine.wait_submitted(1)
    engine.run_until_idle()
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    service.show_sibling(chat_id, service.transcript(chat_id)[1].key, -1)
    line = service.transcript(chat_id)[1]
    assert line.message is not None and line.message.text == "old"
    service.close()


def test_a_kill_while_the_running_answer_makes_way_keeps_it_and_what_waits(database_path: Path):
    chat_id = crash(
        database_path,
        """
engine.step()
engine.step()
service.send(chat.id, "waits")
service.regenerate(first.id)
""",
    )

    service, _, recorder = make_service(database_path)
    assert recorder.of(TurnEnded) == []
    texts = [line.message.text for line in service.transcript(chat_id) if line.message]
    assert texts == ["q1", "o", "waits", ""]
    service.close()


def test_a_kill_while_a_question_is_edited_keeps_the_edit(database_path: Path):
    chat_id = crash(
        database_path,
        """
engine.run_until_idle()
recorder.wait_ended(first.id)
service.edit(chat.id, service.transcript(chat.id)[0].key, "q2")
""",
    )

    service, _, _ = make_service(database_path)
    question, answer = service.transcript(chat_id)
    assert question.message is not None and question.message.text == "q2"
    assert answer.turn is not None and answer.turn.status is TurnStatus.INTERRUPTED
    service.show_sibling(chat_id, question.key, -1)
    texts = [line.message.text for line in service.transcript(chat_id) if line.message]
    assert texts == ["q1", "old"]
    service.close()


def test_a_chat_that_a_killed_program_was_answering_is_whole_before_it_is_written_in(
    database_path: Path,
):
    service, engine, recorder = make_service(database_path)
    chat_id = crash(database_path, "for _ in range(2):\n    engine.step()\n")

    turn = service.send(chat_id, "next")
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)

    texts = [line.message.text for line in service.transcript(chat_id) if line.message]
    assert texts[:3] == ["q1", "o", "next"]
    service.close()
