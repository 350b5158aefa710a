"""Text comes out once, in order, whole characters, and never past a stop string."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpaged.engine.detokenizer import Detokenizer


def stream(pieces: list[bytes], stop: tuple[str, ...] = ()) -> tuple[list[str], bool]:
    detokenizer = Detokenizer(pieces, stop=stop)
    out = []
    for token_id in range(len(pieces)):
        out.append(detokenizer.push(token_id))
        if detokenizer.is_stopped:
            return out, True
    out.append(detokenizer.finish())
    return out, detokenizer.is_stopped


def pieces(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


def test_a_character_cut_by_token_borders_waits():
    face = "😀".encode()
    out, _ = stream([b"a", face[:1], face[1:3], face[3:], b"b"])
    assert out == ["a", "", "", "😀", "b", ""]


@pytest.mark.parametrize(
    ("texts", "stop", "text", "is_stopped"),
    [
        (("one,", " two,", " fi", "ve", ",", " six"), ("five",), "one, two, ", True),
        (("one", " two", " three"), (" two",), "one", True),
        (("fi", "ve"), ("fivex",), "five", False),
        (("ab", "cd"), ("abc", "ab"), "", True),
        (("xa", "bz"), ("ab", "xab_"), "x", True),
        (("xa", "b_"), ("ab", "xab_"), "", True),
        (("a[", "[", "x"), ("[[",), "a", True),
    ],
)
def test_stop_strings_cut_across_token_borders(texts, stop, text, is_stopped):
    out, stopped = stream(pieces(*texts), stop)
    assert ("".join(out), stopped) == (text, is_stopped)


def test_a_stop_string_inside_a_character_of_two_tokens_matches():
    face = "😀".encode()
    out, stopped = stream([b"hi ", face[:2], face[2:], b" more"], ("😀",))
    assert ("".join(out), stopped) == ("hi ", True)


def test_text_that_turns_out_not_to_be_a_stop_is_released_at_once():
    out, _ = stream(pieces("fi", "sh", "y"), ("five",))
    assert out[:2] == ["", "fish"]


def test_invalid_bytes_never_hold_text_back_and_cost_stays_flat():
    bad = [b"\xff"] * 20_000
    started_s = time.perf_counter()
    out, _ = stream([*bad, b"ok"])
    assert "".join(out) == "\ufffd" * 20_000 + "ok"
    assert all(len(text) == 1 for text in out[:20_000])
    assert time.perf_counter() - started_s < 2


@given(st.text(alphabet="aé€😀\ufffd", max_size=12), st.data())
def test_an_answer_cut_inside_a_character_ends_before_it_and_goes_on_with_it(text, data):
    tokens = [bytes((byte,)) for byte in text.encode()]
    cut = data.draw(st.integers(0, len(tokens)))
    begun, _ = stream(tokens[:cut])
    further = Detokenizer(tokens)
    further.go_on(range(cut))
    rest = [further.push(token_id) for token_id in range(cut, len(tokens))]
    begun_text = "".join(begun)
    assert begun_text == b"".join(tokens[:cut]).decode("utf-8", "ignore")
    assert begun_text + "".join(rest) + further.finish() == text


def test_unknown_ids_are_no_text():
    detokenizer = Detokenizer([b"a"])
    assert detokenizer.push(0) + detokenizer.push(10**6) == "a"


@pytest.mark.parametrize(("strips", "text"), [(True, "Paris is"), (False, " Paris is")])
def test_a_tokenizers_first_space_is_no_part_of_a_new_text(strips, text):
    detokenizer = Detokenizer([b"", b" Paris", b" is"], strips_first_space=strips)
    assert "".join(detokenizer.push(token_id) for token_id in range(3)) == text


@given(
    st.text(alphabet="ab<é😀\ufffd", max_size=30),
    st.lists(st.text(alphabet="ab<é", min_size=1, max_size=4), max_size=3),
    st.randoms(),
)
def test_streamed_text_is_the_text_before_the_earliest_stop(text, stops, random):
    data, cut, parts = text.encode(), 0, []
    while cut < len(data):
        length = random.randint(1, 5)
        parts.append(data[cut : cut + length])
        cut += length
    out, stopped = stream(parts, tuple(stops))
    found = [text.find(stop) for stop in stops if stop in text]
    assert stopped == bool(found)
    assert "".join(out) == (text[: min(found)] if found else text)
