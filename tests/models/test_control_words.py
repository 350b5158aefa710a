"""Control words are found as one pattern of all of them would find them, however many there are."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from localpaged.models.control_text import ControlText
from localpaged.models.control_words import ControlWords
from localpaged.models.tokenizer_data import ControlToken

BEFORE, BEHIND = "\ufdd0", "\ufdd1"
MARKS = (BEFORE, BEHIND, "\ufdd2", "\ufdd3")

words = st.sets(st.text("<>ab|", min_size=1, max_size=4), max_size=5)
texts = st.text(f"<>ab| {BEFORE}{BEHIND}", max_size=25)


def pattern_of(found: set[str]) -> str:
    longest_first = sorted(found, key=len, reverse=True)
    return "|".join(map(re.escape, longest_first)) or "(?!)"


@given(words, texts)
def test_the_longest_word_at_each_place_is_wrapped(found: set[str], text: str):
    wanted = re.sub(pattern_of(found), lambda match: f"{BEFORE}{match[0]}{BEHIND}", text)

    assert ControlWords(found).wrapped(text, BEFORE, BEHIND) == wanted


@given(words, texts)
def test_bare_words_are_tokens_and_wrapped_ones_text(found: set[str], rendered: str):
    controls = {word: ControlToken(id_, word) for id_, word in enumerate(sorted(found))}
    word = pattern_of(found)
    wanted: list[object] = [""]
    marked = f"{BEFORE}(?P<text>{word}){BEHIND}|(?P<control>{word})|[{BEFORE}{BEHIND}]|(?P<other>.)"
    for match in re.finditer(marked, rendered, re.DOTALL):
        if match["control"] is not None:
            wanted += [controls[match["control"]], ""]
        else:
            wanted[-1] = f"{wanted[-1]}{match['text'] or match['other'] or ''}"

    assert list(ControlText(list(controls.values())).split(rendered, MARKS)) == wanted


def test_thousands_of_words_cost_no_more_than_a_few():
    controls = [ControlToken(id_, f"<unused{id_}>") for id_ in range(6_000)]
    controls.append(ControlToken(6_000, "<eos>"))
    page = "<td>1 < 2</td>" * 4_000
    started_s = time.process_time()

    told = ControlText(controls)
    wrapped = told.wrap(page + "<unused77>", MARKS, only_hidden=True)
    parts = list(told.split(wrapped + "<unused78>", MARKS))

    assert parts == [page + "<unused77>", controls[78], ""]
    assert (
        time.process_time() - started_s < 0.3
    )  # it takes a tenth of that; one pattern took three times it
