"""A full context is told with its numbers and with what to do; nothing is cut in silence."""

from __future__ import annotations

import json

from localpaged.engine.finish_reason import FinishReason
from testkit.commands import assert_refused, call
from testkit.scripted_engine import Answer


def test_a_cut_answer_is_told_with_its_numbers(answer_with):
    answer_with(Answer(("a", "b"), reason=FinishReason.LENGTH))
    done = call("ask", "Why?")
    assert (done.code, done.out) == (0, "ab\n")
    assert done.err.startswith(
        "localpaged: The answer was cut off: question and answer fill the context, 9 tok"
    )
    assert "hint: Ask for a shorter answer" in done.err
    assert call("ask", "--max-tokens", "2", "Why?").err == ""


def test_a_chat_that_has_grown_too_long_says_how_it_can_go_on(answer_with):
    answer_with(["yes"])
    assert call("ask", "x" * 5_000).code == 0
    done = call("ask", "--continue", "y" * 5_000)
    assert_refused(done, 5, "10008 tokens", "takes 8192", "/context", "--continue")
    failed = json.loads(call("ask", "--json", "--continue", "y" * 5_000).out)
    assert failed["error"]["type"] == "PromptTooLong"


def test_a_first_question_that_is_too_long_keeps_the_engines_hint(answer_with):
    answer_with(["yes"])
    done = call("ask", "x" * 9_000)
    assert_refused(done, 5, "takes 8192")
    assert "/context" not in done.err
