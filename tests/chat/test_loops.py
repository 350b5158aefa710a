"""An answer that only repeats itself is ended, told so, and goes on when it is asked to."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from localpaged.chat.events import TurnEnded
from localpaged.chat.loop_watch import (
    CHECKED_EVERY_CHARS,
    MAX_PERIOD_CHARS,
    MIN_REPEATED_CHARS,
    MIN_REPEATS,
    LoopWatch,
    repeats_itself,
)
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import SamplingParams
from localpaged.store.rows import TurnStatus
from testkit.builders import Recorder, make_service
from testkit.screens import last_text
from testkit.scripted_engine import ScriptedEngine

ROOT = Path(__file__).parents[2]
LINE = "The sea is a place of wonder, and the sea is a place of wonder. "


def noticed_at(text: str, *, piece: int = 4) -> int | None:
    """After how many characters the watch says so."""
    watch = LoopWatch()
    for start in range(0, len(text), piece):
        if watch.take(text[start : start + piece]):
            return start + piece
    return None


@pytest.mark.parametrize("period", [1, 2, 3, 63, 64, 65, 500, MAX_PERIOD_CHARS])
@pytest.mark.parametrize("piece", [1, 5, 700])
def test_a_stretch_over_and_over_is_noticed_whatever_its_length(period, piece):
    rng = random.Random(period)
    stretch = "".join(rng.choice("abcdefgh ") for _ in range(period))
    needed = max(MIN_REPEATED_CHARS, MIN_REPEATS * period)
    beginning = "Once upon a time. "
    at = noticed_at(beginning + stretch * (2 * needed // period + 1), piece=piece)
    assert at is not None
    assert needed <= at <= len(beginning) + needed + max(piece, CHECKED_EVERY_CHARS) + period


def test_a_stretch_that_has_its_own_end_in_it_is_noticed():
    refrain = "la la la, and on we go to where the river meets the sea tonight, my love. "
    verse = f"{refrain}One more road. {refrain}"
    assert noticed_at(verse * 200) is not None


@pytest.mark.parametrize(
    "text",
    [
        LINE * (MIN_REPEATED_CHARS // len(LINE) - 1),
        "".join(f"{n}. {LINE}\n" for n in range(1, 1_000)),
        "".join(f"    data[{n}] = 0;\n" for n in range(2_000)),
        "\n".join(["| name | value |", "|------|-------|", *(f"| a{n} | 0 |" for n in range(999))]),
        "0, " * 1_300,
        "-" * 3_900,
        "\n".join(f"{i} x {j} = {i * j}" for i in range(1, 60) for j in range(1, 60)),
    ],
    ids=["few", "numbered", "code", "table", "zeros", "rule", "multiplication"],
)
def test_what_people_ask_for_is_left_alone(text):
    assert noticed_at(text) is None


def test_no_file_of_this_project_is_taken_for_a_loop():
    texts = [*ROOT.glob("localpaged/**/*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/data/*")]
    assert len(texts) > 100
    for path in texts:
        assert noticed_at(path.read_text(errors="replace")) is None, path


def test_an_end_that_differs_is_no_loop():
    assert repeats_itself(LINE * 100)
    assert not repeats_itself(LINE * 100 + "But")
    assert not repeats_itself("")
    assert not repeats_itself("a")


@pytest.fixture
def looping(database_path):
    made = make_service(database_path, engine=ScriptedEngine([[LINE] * 400]))
    yield made
    made[0].close()


def run(engine: ScriptedEngine, recorder: Recorder, turn_id: str) -> TurnStatus:
    while not any(end.turn_id == turn_id for end in recorder.of(TurnEnded)):
        if not engine.step():
            break
    return recorder.wait_ended(turn_id).status


def test_the_answer_is_ended_with_its_text_and_can_be_continued(looping):
    service, engine, recorder = looping
    chat = service.new_chat()
    turn = service.send(chat.id, "sing")
    engine.wait_submitted(1)
    assert run(engine, recorder, turn.id) is TurnStatus.STOPPED
    end = recorder.wait_ended(turn.id)
    assert end.finish_reason is FinishReason.REPEATED
    text = last_text(service, chat.id)
    assert MIN_REPEATED_CHARS <= len(text) <= MIN_REPEATED_CHARS + 2 * CHECKED_EVERY_CHARS
    saved = service.transcript(chat.id)[-1].turn
    assert (saved.status, saved.finish_reason) == (TurnStatus.STOPPED, "repeated")
    service.continue_turn(turn.id)
    engine.wait_submitted(2)
    for _ in range(20):
        engine.step()
    # it is watched anew: what was there before does not count
    assert len(recorder.text(turn.id)) > len(text)


def test_who_wants_it_to_go_on_says_so(looping):
    service, engine, recorder = looping
    chat = service.new_chat()
    turn = service.send(chat.id, "sing", sampling=SamplingParams(stop_loops=False))
    engine.wait_submitted(1)
    assert run(engine, recorder, turn.id) is TurnStatus.DONE
    assert last_text(service, chat.id) == LINE * 400
