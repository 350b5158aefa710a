"""What may be stored: every text, after one repair at the border."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpaged.store.text import storable


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain \U0001f600 text", "plain \U0001f600 text"),
        ("hello \ud83d", "hello \ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("pair \ud83d\ude00", "pair \U0001f600"),
        ("a\0b", "a\ufffdb"),
        ("", ""),
    ],
)
def test_stray_surrogates_and_nuls_are_replaced(text: str, stored: str):
    assert storable(text) == stored


@given(st.text(st.characters(codec=None)))
def test_what_is_storable_is_utf_8_without_nuls_and_stays_as_it_is(text: str):
    once = storable(text)
    assert "\0" not in once
    assert once.encode().decode() == once
    assert storable(once) == once


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_good_text_is_not_touched(text: str):
    assert storable(text) is text
