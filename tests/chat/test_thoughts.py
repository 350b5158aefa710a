"""Reasoning is told from the answer, however the text is cut, and kept with the turn."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from localpaged.chat.events import TurnEnded, TurnText
from localpaged.chat.thought import (
    TextPart,
    Thought,
    ThoughtReader,
    answer_of,
    from_json,
    reasoning_of,
    to_json,
)
from localpaged.engine.finish_reason import FinishReason
from localpaged.prompt import ReasoningMarks
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from localpaged.store.writes import Write
from testkit.builders import (
    WAIT_S,
    Recorder,
    make_chat,
    make_service,
    make_turn,
    ready_model,
)
from testkit.fake_model import FakeChatModel
from testkit.scripted_engine import Answer, ScriptedEngine

MARKS = ReasoningMarks("<think>", "</think>")


def read(pieces, *, begins_inside=False, marks=MARKS):
    """Return (thought text, answer text, thought) of a text that arrives in pieces."""
    reader = ThoughtReader(marks, begins_inside=begins_inside)
    told = []
    for number, piece in enumerate(pieces, 1):
        told += reader.take(piece, token_count=number, now_s=float(number))
    told += reader.finish(now_s=float(len(pieces) + 1))
    text = "".join(pieces)
    assert "".join(part.text for part in told) == text == text[: reader.position]
    answer = "".join(part.text for part in told if part.part is TextPart.ANSWER)
    thought = "".join(part.text for part in told if part.part is TextPart.THOUGHT)
    assert answer == answer_of(text, reader.thought)
    assert thought.strip() == reasoning_of(text, reader.thought) or "</think>" in text
    return thought.strip(), answer, reader.thought


TEXTS = [
    ("<think>\nplan\n</think>\n\nParis", False, "plan", "Paris"),
    ("plan</think>Paris", True, "plan", "Paris"),
    ("<think>plan</think>Paris", True, "plan", "Paris"),
    ("<think></think>\n\nParis", False, "", "Paris"),
    ("  \n<think>a</think>b", False, "a", "b"),
    ("<think>no end", False, "no end", ""),
    ("<think>half </thi", False, "half </thi", ""),
    ("no thought", False, "", "no thought"),
    ("<thi", False, "", "<thi"),
    ("<b>bold</b>", False, "", "<b>bold</b>"),
    ("Write `<think>x</think>` in XML", False, "", "Write `<think>x</think>` in XML"),
    ("stray </think> end", False, "", "stray </think> end"),
    ("<think>a <think>b</think> c</think> d", False, "a <think>b", "c</think> d"),
    ("<think>a</think>b <think>c", False, "a", "b <think>c"),
    ("<think>a</think>\n<think>b</think>\nc", False, "ab", "c"),
    ("<think>a</think> <thi", False, "a", " <thi"),
    ("", False, "", ""),
]


@pytest.mark.parametrize(("text", "begins_inside", "thought", "answer"), TEXTS)
def test_thought_and_answer_are_told_apart_however_the_text_is_cut(
    text, begins_inside, thought, answer
):
    chance = random.Random(text)
    cuts = [[text], list(text)]
    for _ in range(20):
        places = sorted(chance.randrange(len(text) + 1) for _ in range(3))
        cuts.append([text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)])
    for pieces in cuts:
        told_thought, told_answer, _ = read(pieces, begins_inside=begins_inside)
        assert told_thought.replace("\n", "") == thought.replace("\n", "")
        assert told_answer.strip() == answer.strip()


def test_a_model_without_marks_has_no_thoughts():
    assert read(["<think>x</think>y"], marks=None) == ("", "<think>x</think>y", None)


def test_a_thought_of_a_megabyte_is_read_in_linear_time():
    pieces = ["<think>", *["word " * 20] * 10_000, "</think>", "end"]
    thought, answer, found = read(pieces)
    assert (len(thought), answer) == (999_999, "end")
    assert found is not None and found.tokens == 10_002


def thinking(path: Path, script, **model):
    service, engine, recorder = make_service(
        path,
        engine=ScriptedEngine(script),
        model=ready_model(FakeChatModel(**(model or {"thinks": True}))),
    )
    return service, engine, recorder


def answered(service, engine, recorder: Recorder, *, count: int = 1):
    turn = service.send(service.new_chat().id, "q")
    engine.wait_submitted(count)
    engine.run_until_idle()
    return turn, recorder.wait_ended(turn.id)


def test_time_and_tokens_of_a_thought_are_measured_and_kept_with_the_turn(database_path: Path):
    script = [Answer(("<think>", "\n", "plan", "</thi", "nk>", "\n\n", "Paris"))]
    service, engine, recorder = thinking(database_path, script)
    turn, end = answered(service, engine, recorder)
    assert end.thought is not None
    assert (end.thought.tokens, end.thought.end is not None) == (5, True)
    assert end.thought.seconds is not None and end.thought.seconds >= 0
    parts = dict.fromkeys(TextPart, "")
    for event in recorder.of(TurnText):
        parts[event.part] += event.text
    assert parts[TextPart.ANSWER] == "Paris"
    assert parts[TextPart.THOUGHT].strip() == "plan"
    assert recorder.text(turn.id) == "<think>\nplan</think>\n\nParis"
    service.close()
    again, _, _ = thinking(database_path, script)
    (_, answer) = again.transcript(turn.chat_id)
    assert answer.message is not None and answer.turn is not None
    assert answer.message.text == "<think>\nplan</think>\n\nParis"
    saved = from_json(answer.turn.thought)
    assert saved == end.thought
    assert answer_of(answer.message.text, saved) == "Paris"
    again.close()


def test_a_thought_that_the_prompt_opened_is_one(database_path: Path):
    script = [Answer(("plan", "</think>", "Paris"))]
    service, engine, recorder = thinking(database_path, script, opens_thoughts=True)
    turn, end = answered(service, engine, recorder)
    assert end.thought is not None
    assert answer_of(recorder.text(turn.id), end.thought) == "Paris"
    service.close()


def test_a_thought_that_is_cut_is_kept_as_one_and_goes_on(database_path: Path):
    cut = Answer(("<think>", "one "), reason=FinishReason.LENGTH)
    service, engine, recorder = thinking(database_path, [cut, ("two", "</think>", "Paris")])
    turn, end = answered(service, engine, recorder)
    assert end.thought is not None and end.thought.end is None
    assert (end.thought.start, end.thought.tokens) == (7, 2)
    service.continue_turn(turn.id)
    engine.wait_submitted(2)
    engine.run_until_idle()
    recorder.wait_for(TurnEnded, count=2)
    last = recorder.of(TurnEnded)[-1]
    assert last.thought is not None and last.status is TurnStatus.DONE
    text = service.transcript(turn.chat_id)[-1].message.text
    assert reasoning_of(text, last.thought) == "one two"
    assert answer_of(text, last.thought) == "Paris"
    assert last.thought.tokens == 4
    service.close()


def test_a_shorter_text_has_the_reasoning_that_is_in_it():
    thought = Thought(7, 11, 19, 2.0, 5)
    assert thought.clipped(30) == thought
    assert thought.clipped(9) == Thought(7)
    assert thought.clipped(3) is None


def test_a_crash_in_the_middle_of_a_thought_leaves_it_a_thought(database_path: Path):
    crashed = Store.open(database_path)
    make_chat(crashed, texts=("q",))
    tip = crashed.chat("chat").tip_hash
    turn = replace(
        make_turn(parent_hash=tip, status=TurnStatus.STREAMING, partial_text="<think>so far"),
        thought=to_json(Thought(7)),
    )
    crashed.submit(Write(turns=(turn,))).result(WAIT_S)
    crashed.writer.close()
    crashed._lock.release()
    service, _, _ = make_service(database_path)
    answer = service.transcript("chat")[-1]
    assert answer.turn is not None and answer.message is not None
    assert answer.turn.status is TurnStatus.INTERRUPTED
    assert reasoning_of(answer.message.text, from_json(answer.turn.thought)) == "so far"
    service.close()


@pytest.mark.parametrize(
    "columns",
    [
        {"start": -1},
        {"start": None},
        {"start": 1.5},
        {"start": True},
        {"start": 0, "end": "x"},
        {"start": 0, "after": -3},
        {"start": 0, "seconds": "x"},
        {"start": 0, "tokens": [1]},
    ],
    ids=str,
)
def test_what_is_no_thought_hides_nothing(columns):
    assert from_json(json.dumps(columns)) is None
