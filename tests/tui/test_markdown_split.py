"""Cutting a growing Markdown text never changes what it means."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localpaged.tui.markdown.blocks import lines_of, markdown_lines, parse
from localpaged.tui.markdown.growing import GrowingMarkdown
from localpaged.tui.markdown.split import Splitter, has_link_definitions

WIDTH = 40
FENCE_TRAPS = [
    "run:\n```\nls\n```",
    "~~~\n```\nnot the end\n~~~\nafter",
    "````\n```\ninner\n```\n````\nafter",
    "- item\n  ```py\n  x = 1\n\n  y = 2\n  ```\n- next",
    "1. one\n\n   ```\n   code\n   ```\n\n2. two\n\ntext",
    "```python\ncut inside",
    "```\na\n\n\n# not a heading\n\nb\n```\n\n# heading",
    "> ```\n> quoted\n\nafter",
    "text\n```` js\ncode\n```\nmore\n`````\nend",
    "``` a`b\n\nnot a fence\n",
    "- a\n\n\n- b\n\n  c\n\nd\n\n- e",
    "- a\n# heading ends the list\n- b",
    "| A | B |\n| --- | ---: |\n| 1 | 2 |\n\nafter",
    "para\n---\n\npara\n===\n",
    "[a]: /u\n\n[a] is a link",
    "> quote\nlazy\n\n> other",
    "    indented code\n\n    more\n\ntext",
    "1) a\n\n1. b\n\n* c\n\n+ d\n",
    "a\r\n\r\n```\r\ncode\r\n```\r\nb\r\n",
]
FRAGMENTS = st.sampled_from(
    [
        "a",
        "bc `d`",
        "**e**",
        "- f",
        "* g",
        "1. h",
        "2) i",
        "  j",
        "    k",
        "\tl",
        "> m",
        ">",
        "```",
        "```py",
        "~~~",
        "````",
        "  ```",
        "# n",
        "#o",
        "---",
        "===",
        "- ",
        "| p | q |",
        "|---|---|",
        "",
        "",
        "",
        "<div>",
        "<!--",
        "[r]: /s",
        "[r]",
        "***",
        "+",
        "10. t",
        "-",
        "   - u",
        "[ ] v",
    ]
)
DOCUMENTS = st.lists(FRAGMENTS, max_size=14).map("\n".join)


@pytest.mark.parametrize("text", FENCE_TRAPS)
def test_streaming_by_character_ends_like_rendering_at_once(text):
    growing = GrowingMarkdown(WIDTH)
    for character in text:
        growing.feed(character)
    growing.finish()
    assert growing.lines == markdown_lines(text, WIDTH)


@settings(max_examples=400)
@given(DOCUMENTS, st.lists(st.integers(1, 9), min_size=1))
def test_streaming_in_any_pieces_ends_like_rendering_at_once(text, sizes):
    growing = GrowingMarkdown(WIDTH)
    for piece in pieces(text, sizes):
        growing.feed(piece)
    growing.finish()
    assert growing.lines == markdown_lines(text, WIDTH)


@settings(max_examples=400)
@given(DOCUMENTS)
def test_text_before_a_cut_parses_alone_to_the_blocks_it_has_in_the_whole(text):
    splitter = Splitter()
    cuts = sorted({0, len(text), *(splitter.feed(text[:end]) for end in range(len(text) + 1))})
    parts = [text[a:b] for a, b in pairwise(cuts)]
    if not has_link_definitions(text):
        alone = [token.as_dict() for part in parts for token in parse(part)]
        whole = [token.as_dict() for token in parse(text)]
        assert [without_place(token) for token in alone] == [
            without_place(token) for token in whole
        ]


@settings(max_examples=200)
@given(DOCUMENTS)
def test_a_cut_never_moves_back(text):
    splitter = Splitter()
    cuts = [splitter.feed(text[:end]) for end in range(len(text) + 1)]
    assert cuts == sorted(cuts)


def test_finished_paragraphs_and_fences_are_cut_off():
    text = "one\n\ntwo\n\n```\ncode\n```\nthree"
    assert text[Splitter().feed(text) :] == "three"


def test_an_open_fence_is_known_at_its_first_line():
    splitter = Splitter()
    splitter.feed("text\n\n```py\nx = 1\n")
    assert splitter.open_fence == "```"


@settings(max_examples=150)
@given(st.text(max_size=120), st.integers(1, 60))
def test_no_text_is_too_strange_for_the_renderer(text, width):
    growing = GrowingMarkdown(width)
    for character in text:
        growing.feed(character)
    growing.finish()
    assert growing.lines == markdown_lines(text, width)


def test_laying_out_again_gives_the_lines_of_the_new_width():
    growing = GrowingMarkdown(WIDTH)
    growing.feed("- a longer item that must wrap somewhere\n\nnext paragraph\n\nand the tail")
    growing.resize(20)
    growing.finish()
    assert growing.lines == lines_of(parse(growing.text), 20)


def pieces(text: str, sizes: list[int]) -> Iterator[str]:
    start, turn = 0, 0
    while start < len(text):
        size = sizes[turn % len(sizes)]
        yield text[start : start + size]
        start, turn = start + size, turn + 1


def without_place(token: MutableMapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in token.items() if key not in ("map", "meta")}
