"""Labels in the prompt: what stands for long texts and files, and that none of it is lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpaged.chat.attached import file_block, is_attached_file
from localpaged.chat.title import auto_title
from localpaged.plain_text import visible
from localpaged.tui.glyphs import ASCII
from localpaged.tui.labels import expanded, folded, is_priced, label_for

LONG = "line\n" * 40
TEXTS = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.sampled_from(["\n", "File: a\n", "```\n", "````", "[pasted 41 lines]", LONG, "\x1b"]),
        st.builds(file_block, st.sampled_from(["a.txt", "[b] \n c`"]), st.text(max_size=30)),
    ),
    max_size=8,
).map("".join)


@given(TEXTS)
def test_what_is_folded_for_the_prompt_is_sent_exactly(text):
    assert expanded(*folded(text)) == text


@pytest.mark.parametrize(
    "text", ["a", "a\n```\nb\n```", "`````\n````", "\n", "no end", "[x]\x1b\r"]
)
def test_a_file_is_one_block_whatever_is_in_it(text):
    block = file_block("notes.txt", text)
    assert is_attached_file(block)
    shown, pastes = folded(f"Look at this.\n{block}\nWhat is it?")
    assert list(pastes.values()) == [block]
    assert shown.splitlines()[0] == "Look at this."
    assert shown.splitlines()[2] == "What is it?"


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("[f]", "{}"),
        ("look [f] here", "look\n{}\nhere"),
        ("[f] here", "{}\nhere"),
        ("look\n[f]\n", "look\n{}\n"),
        ("[f] [f]", "{}\n[f]"),
    ],
)
def test_a_file_stands_in_lines_of_its_own(typed, sent):
    block = file_block("a.py", "x = 1")
    assert expanded(typed, {"[f]": block}) == sent.format(block)


def test_a_label_is_not_looked_for_in_what_another_stands_for():
    pastes = {"[pasted 1]": "has [pasted 2] in it", "[pasted 2]": "second"}
    assert expanded("[pasted 1] [pasted 2]", pastes) == "has [pasted 2] in it second"


def test_labels_tell_size_and_price_and_are_never_the_same():
    block = file_block("notes.txt", "a\n" * 311 + "b")
    label = label_for(block, taken=())
    assert label == "[notes.txt 312 lines]"
    assert label_for(block, taken={label}) == "[notes.txt 312 lines #2]"
    priced = label_for(block, taken={label}, price=("4,210 tok", "264 blocks"))
    assert priced == "[notes.txt 312 lines · 4,210 tok · 264 blocks]"
    assert (is_priced(label), is_priced(priced)) == (False, True)
    plain = label_for(block, taken=(), price=("1 tok", "1 block"), dot=ASCII.dot)
    assert plain == "[notes.txt 312 lines | 1 tok | 1 block]"
    assert is_priced(plain)
    assert label_for("x" * 5_000, taken=()) == "[pasted 5,000 characters]"
    assert label_for(file_block("a", "x"), taken=()) == "[a 1 line]"


def test_a_files_name_is_text():
    name = "[red]\x1b]0;x\x07\u202e" + "long" * 30 + ".txt"
    label = label_for(file_block(name, "x"), taken=())
    assert visible(label) == label
    assert len(label) < 60
    assert label.count("[") == 1
    assert file_block(name, "x").startswith("File: [red]␛]0;x␇<U+202E>long")


def test_blocks_that_never_end_cost_no_time():
    text = "".join(f"File: x\n{'`' * n}\n" for n in range(3, 900))
    started = time.perf_counter()
    folded(text)
    assert time.perf_counter() - started < 2.0


def test_a_title_is_of_what_was_written_else_of_the_files_name():
    block = file_block("notes.txt", LONG)
    assert auto_title(f"{block}\nWhat is it?") == "What is it?"
    assert auto_title(f"{block}\n{block}") == "notes.txt, notes.txt"
    assert auto_title("File: no file") == "File: no file"
