"""What marks reasoning is read from the model: its template, else its tokens."""

from __future__ import annotations

import pytest

from localpaged.models.reasoning import marks_of, with_visible_marks
from localpaged.models.tokenizer_data import ControlToken, TokenizerData


def data(template: str | None, *controls: ControlToken) -> TokenizerData:
    return TokenizerData("{}", True, controls, (), None, False, False, (), template, {})


@pytest.mark.parametrize(
    ("template", "begin"),
    [
        ("{% if '</think>' in content %}…{% endif %}", "<think>"),
        ("{{ '<|assistant|><think>\\n' }}{{ '</think>' }}", "<think>"),
        ("[THINK]…[/THINK]", "[THINK]"),
        ("{{ messages[0].content }}", None),
        (None, None),
    ],
)
def test_a_template_that_cuts_at_marks_tells_them(template, begin):
    marks = marks_of(data(template))
    assert (None if marks is None else marks.begin) == begin


def test_tokens_of_their_own_tell_as_well():
    both = (ControlToken(7, "<think>", False), ControlToken(8, "</think>", False))
    assert marks_of(data("plain", *both)) is not None
    assert marks_of(data("plain", *both[:1])) is None


def test_hidden_marks_get_a_text_and_other_tokens_stay_hidden():
    known = data("[/THINK]", ControlToken(7, "[THINK]"), ControlToken(8, "<s>"))
    shown = with_visible_marks(known, marks_of(known))
    assert [control.is_hidden for control in shown.controls] == [False, True]
    assert with_visible_marks(known, None) is known
