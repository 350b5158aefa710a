"""The parts of comparing that need no screen: where panes stand, what is asked, what differs."""

from __future__ import annotations

import pytest

from localpaged.chat.differences import MAX_PAIRS, Side, first_difference, word_diff
from localpaged.errors import BadParameter
from localpaged.tui.compare.asking import asked_for
from localpaged.tui.compare.layout import MIN_PANE_COLUMNS, MIN_PANE_ROWS, arrange


@pytest.mark.parametrize(
    ("panes", "width", "height", "expected"),
    [
        (2, 80, 20, (1, [1, 1])),
        (3, 80, 20, None),
        (3, 140, 36, (1, [1, 1, 1])),
        (4, 140, 36, (2, [1, 1, 1, 1])),
        (4, 140, 20, None),
        (4, 160, 20, (1, [1, 1, 1, 1])),
        (3, 100, 36, (2, [1, 1, 2])),
        (5, 140, 36, (2, [2, 2, 2, 3, 3])),
        (1, 30, 10, None),
        (9, 80, 24, None),
    ],
)
def test_panes_stand_in_the_fewest_rows_that_leave_each_its_least_size(
    panes, width, height, expected
):
    arrangement = arrange(panes, width=width, height=height)
    if expected is None:
        assert arrangement is None
        return
    assert arrangement is not None
    assert (arrangement.num_rows, list(arrangement.spans)) == expected


def test_no_pane_is_ever_too_small_and_no_cell_empty():
    for panes in range(1, 17):
        for width in range(30, 400, 7):
            for height in range(5, 120, 5):
                arrangement = arrange(panes, width=width, height=height)
                if arrangement is None:
                    continue
                assert sum(arrangement.spans) == arrangement.columns * arrangement.num_rows
                assert height // arrangement.num_rows >= MIN_PANE_ROWS
                for span in arrangement.spans:
                    assert width * span / arrangement.columns >= MIN_PANE_COLUMNS


def test_options_stand_before_the_prompt_which_stays_as_it_is():
    asked = asked_for(" n=2 temp=0.2,1 m=A,B seed=5 blind  What is n=3?\n  x=1 ")
    assert asked.prompt == "What is n=3?\n  x=1 "
    assert asked.is_blind
    assert [(spec.model, spec.overrides["temperature"]) for spec in asked.specs] == [
        ("A", 0.2),
        ("A", 1.0),
        ("B", 0.2),
        ("B", 1.0),
    ]
    assert asked_for("blinds are down").prompt == "blinds are down"
    assert asked_for("x=1 is true").prompt == "x=1 is true"
    assert len(asked_for("Sky?").specs) == 2


@pytest.mark.parametrize(
    "text", ["n=two Sky?", "t=0.2;1 Sky?", "seed=x Sky?", "n=0 Sky?", "n=2 max_tokens=9 Sky?"]
)
def test_options_that_make_no_sense_are_refused(text):
    with pytest.raises(BadParameter):
        asked_for(text)


def test_a_diff_has_both_texts_and_shares_what_is_equal():
    left, right = "the cat sat on the mat", "the dog sat on a mat"
    pieces = word_diff(left, right)
    for side, text in ((Side.LEFT, left), (Side.RIGHT, right)):
        assert "".join(piece.text for piece in pieces if piece.side in (Side.BOTH, side)) == text
    assert [piece.text for piece in pieces if piece.side is Side.LEFT] == ["cat", "the"]
    assert word_diff("same", "same") == [pieces[0].__class__(Side.BOTH, "same")]
    assert word_diff("", "") == []


def test_a_diff_of_long_texts_that_share_nothing_ends():
    left, right = (" ".join(f"{side}{n}" for n in range(3_000)) for side in "ab")
    assert MAX_PAIRS < 3_000**2
    assert [piece.side for piece in word_diff(left, right)] == [Side.LEFT, Side.RIGHT]


def test_the_first_difference_counts_what_is_equal_before_it():
    first = first_difference("one two three", "one two four")
    assert first is not None
    assert (first.num_chars, first.num_words, first.num_tokens) == (8, 2, None)
    assert first_difference("same", "same") is None
    shorter = first_difference("one", "one two")
    assert shorter is not None
    assert (shorter.num_chars, shorter.num_words) == (3, 1)
