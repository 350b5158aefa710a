"""Rows fit their width, and put together again they are the text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.markdown.wrap import fold_runs, wrap_runs

TEXTS = st.text(alphabet="ab -,.\n漢字。ひ🙂é", max_size=60)
WIDTHS = st.integers(2, 20)


@given(TEXTS, WIDTHS)
def test_no_row_is_wider_than_asked(text, width):
    for line in (*wrap_runs([Run(text)], width), *fold_runs([Run(text)], width)):
        if line.plain != " " * len(line.plain):
            assert cell_len(line.plain.replace("\n", "")) <= width


@given(TEXTS, WIDTHS)
def test_rows_joined_by_their_glue_are_the_text(text, width):
    lines = wrap_runs([Run(text)], width)
    joined = lines[0].plain + "".join(line.glue + line.plain for line in lines[1:])
    # spaces at the end of a source line are not kept
    assert re.sub(r" +(?=\n|$)", "", joined) == re.sub(r" +(?=\n|$)", "", text)


@given(TEXTS, st.integers(0, 60), WIDTHS)
def test_styles_stay_with_their_characters(text, cut, width):
    runs = [Run(text[:cut], Role.ACCENT), Run(text[cut:], Role.TEXT, STRONG)]
    lines = wrap_runs([run for run in runs if run.text], width)
    accented = "".join(r.text for line in lines for r in line.runs if r.role is Role.ACCENT)
    assert accented.replace(" ", "").replace("\n", "") == text[:cut].replace(" ", "").replace(
        "\n", ""
    )


def test_words_stay_whole_where_they_fit():
    assert [line.plain for line in wrap_runs([Run("one two three")], 7)] == ["one two", "three"]


def test_a_word_longer_than_the_row_is_cut():
    assert [line.plain for line in wrap_runs([Run("abcdefgh")], 3)] == ["abc", "def", "gh"]


def test_chinese_breaks_anywhere_but_before_closing_punctuation():
    assert [line.plain for line in wrap_runs([Run("漢字漢字。漢")], 8)] == ["漢字漢", "字。漢"]


def test_code_folds_at_the_edge_and_keeps_its_spaces():
    assert [line.plain for line in fold_runs([Run("a  b  c")], 3)] == ["a  ", "b  ", "c"]
