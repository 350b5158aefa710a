"""What a model thinks goes to stderr, what it answers to stdout; JSON has both by name."""

from __future__ import annotations

import json
import sys

import pytest

from localpaged.chat.thought import TextPart
from localpaged.cli.answer import TextAnswer
from testkit.commands import call
from testkit.fake_model import FakeChatModel

PIECES = ["<think>", "\n\nfirst", "\n", "\x1b[31msecond", "\n</thi", "nk>", "\n\n", "Paris", ".\n"]


@pytest.fixture
def thinker():
    return FakeChatModel(thinks=True)


def test_a_pipe_gets_the_answer_alone(answer_with, thinker):
    answer_with(PIECES, model=thinker)
    done = call("ask", "q")
    assert (done.code, done.out) == (0, "Paris.\n")
    assert done.err == "first\n␛[31msecond\n\n"


def test_json_has_the_reasoning_by_name(answer_with, thinker):
    answer_with(PIECES, ["<think></think>", "Yes."], model=thinker)
    answer = json.loads(call("ask", "--json", "q").out)
    assert (answer["text"], answer["reasoning"]) == ("Paris.\n", "first\n\x1b[31msecond")
    answer = json.loads(call("ask", "--json", "q").out)
    assert (answer["text"], answer["reasoning"]) == ("Yes.", None)


def test_a_thought_without_an_end_leaves_stdout_empty(answer_with, thinker):
    answer_with(["<think>", "so far"], model=thinker)
    done = call("ask", "q")
    assert (done.code, done.out, done.err) == (0, "", "so far\n\n")


def test_marks_in_an_answer_are_text(answer_with, thinker):
    answer_with(["Write `<think>", "x</think>`."], model=thinker)
    assert call("ask", "q").out == "Write `<think>x</think>`.\n"


def test_a_terminal_shows_reasoning_dim_and_passing_lines_do_not_cut_it(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    answer = TextAnswer()
    answer.status("reading 1/2 tokens")
    for text in ("hm", "m ", "yes\n"):
        answer.add(text, TextPart.THOUGHT)
        answer.status("reading 2/2 tokens")
    answer.add("</think>", TextPart.MARK)
    answer.add("Paris")
    answer.end(None, None)
    captured = capsys.readouterr()
    assert captured.out == "Paris\n"
    assert captured.err == "\r\x1b[Kreading 1/2 tokens\r\x1b[K\x1b[2mhmm yes\x1b[22m\n\n"
