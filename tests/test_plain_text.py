"""Untrusted text cannot act on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpaged.plain_text import visible

ATTACKS = {
    "clipboard write": "\x1b]52;c;SGVsbG8=\x07",
    "title change": "\x1b]0;x\x07",
    "hidden link": "\x1b]8;;http://x\x1b\\click\x1b]8;;\x1b\\",
    "screen wipe": "\x1b[2J",
    "report on stdin": "\x1b[6n",
    "terminal reset": "\x1bc",
    "unterminated OSC": "\x1b]0;never ends",
    "8-bit CSI and OSC": "\x9b2J\x9d0;x\x9c",
    "line overprint": "safe\rEVIL",
    "backspaces": "safe\b\b\b\bEVIL",
    "bidi override": "\u202egnp.exe\u202c \u2066x\u2069",
    "NUL": "a\x00b",
    "shift out": "\x0e",
    "tags": "\U000e0041\U000e007f",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@pytest.mark.parametrize("multiline", [False, True])
def test_no_acting_character_gets_through(attack: str, multiline: bool):
    shown = visible(attack, multiline=multiline)

    assert shown != attack
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf")]


def test_marks_name_the_character():
    assert visible("\x1b[2J") == "␛[2J"
    assert visible("\x07\x7f\x9b\u202e\ud800") == "␇␡<U+009B><U+202E><U+D800>"


def test_ordinary_text_is_returned_unchanged():
    text = "Grüße, 世界! 👩\u200d👩\u200d👧 می\u200cخواهم e\u0301 ❤\ufe0f"

    assert visible(text) == text


def test_multiline_keeps_lines_and_tabs_and_shows_a_lone_return():
    assert visible("a\tb\nc\r\nd\re", multiline=True) == "a\tb\nc\nd␍e"


def test_a_single_line_stays_one():
    assert visible("a\nb\tc\u2028d") == "a␊b␉c<U+2028>d"


@given(st.text(alphabet=st.characters(), max_size=40))
def test_the_result_is_printable_and_stable(text: str):
    shown = visible(text)

    shown.encode("utf-8")
    assert visible(shown) == shown
    assert not set(map(ord, shown)) & {*range(0x20), *range(0x7F, 0xA0)}
