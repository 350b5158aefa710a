"""A paste is one event with all its text, whatever escapes are in it and however it is read."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual import events

from localpaged.tui.paste_guard import GuardedParser, restored

START, END = "\x1b[200~", "\x1b[201~"


def read(*reads: str) -> list[events.Event]:
    parser = GuardedParser()
    return [
        event
        for data in reads
        for event in parser.feed(data)
        if isinstance(event, (events.Key, events.Paste))
    ]


@pytest.mark.parametrize(
    "text",
    [
        "line1 \x1b[31mred\rline2\rline3\r",
        "one\x1btwo\rthree\r",
        "a\x1b]0;t\x07b\rc\r",
        "\x1b",
        "\x1b[20",
        "plain\rlines\r",
    ],
)
def test_an_escape_in_a_paste_types_no_keys(text: str):
    (paste,) = read(f"{START}{text}{END}")
    assert isinstance(paste, events.Paste)
    assert restored(paste).text == text


@example("a", [8, 1, 4, 1])
@given(st.text("ab\r\x1b[201~", max_size=20), st.lists(st.integers(1, 30), max_size=6))
def test_a_paste_is_whole_however_it_is_read(text: str, cuts: list[int]):
    text = text.replace(END, "")
    whole, reads = f"x{START}{text}{END}y", []
    for cut in cuts:
        reads.append(whole[:cut])
        whole = whole[cut:]
    found = read(*[part for part in [*reads, whole] if part])
    pastes = [restored(event).text for event in found if isinstance(event, events.Paste)]
    keys = [event.character for event in found if isinstance(event, events.Key)]
    assert pastes == [text]
    assert keys == ["x", "y"]


def test_keys_outside_of_pastes_are_as_before():
    keys = [event.key for event in read("a", "\x1b[A", "\x1b[20~") if isinstance(event, events.Key)]
    assert keys == ["a", "up", "f9"]


@pytest.mark.parametrize("number", ["1114112", "99999999999"])
@pytest.mark.parametrize("end", ["u", ";5u"])
def test_a_key_that_there_is_not_is_given_up_and_the_next_ones_are_read(number: str, end: str):
    found = read("a", f"\x1b[{number}{end}", "b", f"{START}c{END}")
    keys = [event.key for event in found if isinstance(event, events.Key)]
    pastes = [event.text for event in found if isinstance(event, events.Paste)]
    assert (keys, pastes) == (["a", "b"], ["c"])


@given(st.lists(st.text("\x1b[]OP<>?;:0123456789uMmRtyIZ~^\x00\x7fé漢\r", min_size=1), max_size=9))
def test_no_input_ends_the_parser(reads: list[str]):
    parser = GuardedParser()
    for data in reads:
        list(parser.feed(data))
    list(parser.tick())
