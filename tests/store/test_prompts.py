"""Prompts are kept as differences, put together exactly, and go with their chat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localpaged.store.prompts import sequence_of
from localpaged.store.rows import SentPrompt, Turn, TurnStatus
from localpaged.store.store import Store
from localpaged.store.token_ids import pack, unpack
from localpaged.store.writes import Write, change_chat
from testkit.builders import make_chat, make_turn

IDS = st.lists(st.integers(0, 2**32 - 1), max_size=6)


def make_prompt(turn_id: str, base: str | None, num_shared: int, tail: list[int]) -> SentPrompt:
    return SentPrompt(turn_id, base, num_shared, pack(tail), 0, "model", "run")


def make_answer(turn_id: str, ids: list[int] | None, *, created_at: float = 2.0) -> Turn:
    turn = make_turn(turn_id=turn_id, status=TurnStatus.DONE, created_at=created_at)
    return replace(turn, token_ids=None if ids is None else pack(ids))


@given(st.lists(st.tuples(st.integers(0, 12), IDS, IDS), min_size=1, max_size=6))
def test_any_chain_of_differences_gives_the_sequences_back(
    steps: list[tuple[int, list[int], list[int]]],
):
    prompts: dict[str, SentPrompt] = {}
    turns: dict[str, Turn] = {}
    sequences: list[list[int]] = [[]]
    for number, (num_shared, tail, answer) in enumerate(steps):
        shared = sequences[-1][:num_shared]
        base = str(number - 1) if number else None
        prompts[str(number)] = make_prompt(str(number), base, len(shared), tail)
        turns[str(number)] = make_answer(str(number), answer)
        sequences.append([*shared, *tail, *answer])

    for number, sequence in enumerate(sequences[1:]):
        found = sequence_of(str(number), prompts, turns)
        assert found is not None and list(unpack(found)) == sequence


def test_a_chain_with_a_missing_link_is_not_known():
    turns = {name: make_answer(name, [7]) for name in "abc"}
    prompts = {"b": make_prompt("b", "a", 2, [3]), "c": make_prompt("c", "b", 9, [3])}
    root = make_prompt("a", None, 0, [1, 2])

    assert sequence_of("b", prompts, turns) is None
    assert sequence_of("b", {**prompts, "a": root}, {"b": turns["b"]}) is None
    assert sequence_of("c", {**prompts, "a": root}, turns) is None  # shares more than there is
    circle = {"a": replace(root, base_turn_id="b"), "b": prompts["b"]}
    assert sequence_of("b", circle, turns) is None
    assert sequence_of("none", {}, {}) is None


@settings(max_examples=5)
@given(is_flushed=st.booleans())
def test_the_latest_of_a_chat_is_found_saved_or_not(
    tmp_path_factory: pytest.TempPathFactory, is_flushed: bool
):
    store = Store.open(tmp_path_factory.mktemp("store") / "chats.db")
    make_chat(store, texts=["q", "a"])
    fork = store.fork("chat", at_hash=store.chat("chat").tip_hash or "")
    assert store.last_sent("chat") is None

    older, newer = (make_answer(name, [5], created_at=at) for name, at in (("z", 2.0), ("a", 3.0)))
    prompts = (make_prompt("z", None, 0, [1, 2]), make_prompt("a", "z", 3, [4]))
    store.submit(Write(turns=(older, newer), prompts=prompts))
    if is_flushed:
        assert store.writer.flush()

    for chat_id in ("chat", fork.id):
        sent = store.last_sent(chat_id)
        assert sent is not None
        assert (sent.turn.id, unpack(sent.ids)) == ("a", (1, 2, 5, 4, 5))
        assert sent.prompt == prompts[1]
    assert store.close() is None


def test_prompts_go_with_their_chat(database_path: Path):
    store = Store.open(database_path)
    make_chat(store, texts=["q", "a"])
    make_chat(store, chat_id="kept", texts=["q", "a"])
    gone, kept = make_answer("gone", [1]), replace(make_answer("kept", [1]), chat_id="kept")
    prompts = (make_prompt("gone", None, 0, [1]), make_prompt("kept", None, 0, [1]))
    deleted = change_chat("chat", deleted_at=1.0)
    store.submit(Write(turns=(gone, kept), prompts=prompts, chat_changes=(deleted,)))
    assert store.close() is None

    store = Store.open(database_path)  # purges what was deleted long ago
    assert store.writer.flush()
    rows = store._reader().query("SELECT turn_id FROM prompts")
    assert [row["turn_id"] for row in rows] == ["kept"]
    assert store.close() is None


def test_checkpoints_have_the_ids_of_their_texts(database_path: Path):
    store = Store.open(database_path)
    make_chat(store, texts=["q"])
    store.submit(Write(turns=(make_turn(),)))
    store.writer.append_text("turn", "He", 1, (5,))
    store.writer.append_text("turn", "", 2, (6,))
    assert store.writer.flush()
    store.writer.append_text("turn", "llo", 3, (7,))
    assert store.writer.flush()

    saved = store.turn("turn")
    assert (saved.partial_text, saved.token_ids) == ("Hello", pack((5, 6, 7)))
    assert store.close() is None


def test_a_continued_answers_checkpoint_goes_on_from_its_row(database_path: Path):
    store = Store.open(database_path)
    make_chat(store, texts=["q"])
    begun = replace(make_turn(partial_text="He"), token_ids=pack((1,)), completion_tokens=1)
    store.submit(Write(turns=(begun,)))
    # what the engine reads is known a little later, and may be other ids
    store.submit(Write(turns=(replace(begun, token_ids=pack((2, 3))),)))
    store.writer.append_text("turn", "llo", 2, (7,))
    assert store.writer.flush()
    assert store.turn("turn").token_ids == pack((2, 3, 7))

    store.submit(Write(turns=(replace(begun, token_ids=None),)))
    store.writer.append_text("turn", "llo", 2, (7,))
    assert store.writer.flush()
    saved = store.turn("turn")
    assert (saved.partial_text, saved.token_ids) == ("Hello", None)
    assert store.close() is None
