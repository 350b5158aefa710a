"""What Markdown looks like as lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from localpaged.plain_text import visible
from localpaged.tui.markdown.blocks import MIN_WIDTH, markdown_lines
from localpaged.tui.markdown.growing import GrowingMarkdown
from localpaged.tui.markdown.line import Line, Role

HALF_WRITTEN = [
    "| A | B |\n| --- | ---",
    "# H [/test]",
    "- [ ] x",
    "1. ",
    "![a](",
    "<details>",
    ">" * 200 + " deep",
    "**bold *and [link](http://x",
    "```\n```\n``",
    "[a]: ",
    "- " * 100 + "x",
]


def shown(source: str, width: int = 40) -> list[str]:
    return [row(line).rstrip() for line in markdown_lines(source, width)]


def row(line: Line) -> str:
    return "".join(run.text for run in (*line.prefix, *line.runs))


def test_lists_hang_and_nest():
    assert shown("1. one\n2. two that is long enough to wrap\n   - inner\n", 20) == [
        "1. one",
        "2. two that is long",
        "   enough to wrap",
        "   • inner",
    ]


def test_a_loose_list_keeps_its_blank_lines():
    assert shown("- a\n\n- b") == ["• a", "", "• b"]


def test_numbers_of_a_list_go_on_from_its_first():
    assert shown("9. nine\n10. ten") == [" 9. nine", "10. ten"]


def test_a_table_that_fits_is_aligned():
    assert shown("| a | long head |\n|---|---:|\n| 1 | 2 |") == [
        "a   │ long head",
        "────┼──────────",
        "1   │         2",
    ]


def test_a_table_too_wide_wraps_its_cells():
    lines = shown("| name | text |\n|---|---|\n| x | " + "word " * 20 + "|", 30)
    assert len(lines) > 4
    assert all(len(line) <= 30 for line in lines)


def test_a_table_of_too_many_columns_becomes_records():
    header = "|".join(f"h{n}" for n in range(12))
    body = "|".join(f"v{n}" for n in range(12))
    lines = shown(f"|{header}|\n|{'---|' * 12}\n|{body}|", 40)
    assert lines[:2] == ["h0: v0", "h1: v1"]


def test_code_keeps_its_spaces_and_is_filled_to_the_edge():
    lines = markdown_lines("```python\nif x:\n    y\n```", 30)
    assert [line.plain for line in lines] == ["", "if x:", "    y", ""]
    assert {line.fill for line in lines} == {Role.CODE}


def test_code_of_an_unknown_language_is_plain():
    assert shown("```no-such-language\nx = 1\n```")[1] == " x = 1"


def test_lines_of_verse_stay_lines():
    assert shown("roses are red\nviolets are blue") == ["roses are red", "violets are blue"]


def test_html_is_text():
    assert shown("<b>x</b> <script>alert(1)</script>", 60) == ["<b>x</b> <script>alert(1)</script>"]


def test_an_image_is_named_not_fetched():
    assert shown("![a cat](http://x/cat.png)") == ["[image: a cat]"]


@pytest.mark.parametrize("href", ["nofile.md", "file:///etc/passwd", "javascript:x", "mailto:a@b"])
def test_an_address_that_is_no_web_address_is_written_out(href):
    assert shown(f"[text]({href})") == [f"text ({href})"]


def test_a_web_link_carries_its_address():
    (line,) = markdown_lines("[l](https://example.invalid)", 40)
    assert [(run.text, run.href) for run in line.runs] == [("l", "https://example.invalid")]


def test_quotes_too_deep_to_lay_out_are_still_readable():
    assert "deep" in "".join(shown(">" * 200 + " deep"))


@pytest.mark.parametrize("source", HALF_WRITTEN)
def test_no_prefix_of_half_written_markdown_fails(source):
    for end in range(len(source) + 1):
        markdown_lines(source[:end], 30)
    growing = GrowingMarkdown(30)
    for character in source:
        growing.feed(character)
        assert all(isinstance(growing[index], Line) for index in range(len(growing)))


HOSTILE = [
    *("a\x1b[31mb", "```\n\x9b2J\n```", "# \x07", "|a\x08|\n|--|\n|\x0b|", "[x](http://\x1b)"),
    *("&#x202e;x", "`\u200b`", "![\x1b](\x1b)", "> \x9d0;x\x07", "```\x1b]0;\nx\n```"),
]


@pytest.mark.parametrize("source", HOSTILE)
def test_nothing_that_acts_on_a_terminal_is_left(source):
    for line in markdown_lines(source, 40):
        assert visible(row(line)) == row(line)


@settings(max_examples=100)
@given(st.text(alphabet="ab *_`#->|[]()!~\n1.漢", max_size=80), st.integers(MIN_WIDTH, 50))
def test_lines_fit_their_width_unless_nesting_eats_it(source, width):
    for line in markdown_lines(source, width):
        prefix = sum(cell_len(run.text) for run in line.prefix)
        assert cell_len(line.plain) <= max(width - prefix, MIN_WIDTH)


def test_a_big_fence_streams_with_a_bounded_tail():
    growing = GrowingMarkdown(80)
    growing.feed("```python\n" + "x = 1\n" * 5_000)
    assert len(growing) >= 5_000
    growing.feed("```\n")
    growing.finish()
    assert growing.lines == markdown_lines("```python\n" + "x = 1\n" * 5_000 + "```\n", 80)


def test_an_undecided_last_line_is_not_drawn_as_something_else():
    growing = GrowingMarkdown(40)
    growing.feed("text\n-")
    assert [row(line) for line in growing.lines] == ["text"]
