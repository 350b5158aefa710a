"""A search finds what a person would expect, whatever is typed, and says where it is."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localpaged.store.fold import fold
from localpaged.store.rows import Chat, TurnStatus
from localpaged.store.scope import ChatScope
from localpaged.store.search import MAX_HITS
from localpaged.store.store import Store
from localpaged.store.tree import make_message
from localpaged.store.writes import Purge, Write, change_chat
from testkit.builders import make_chat, make_turn

MIXED = "今日は用户身份を確認gen-itgc後"


def found(store: Store, query: str) -> list[str]:
    """The stretches of text that are hits."""
    return [
        hit.snippet.text[start:end]
        for hit in store.search(query).hits
        for start, end in hit.snippet.places
    ]


def titles(store: Store, query: str, scope: ChatScope = ChatScope.ALL) -> list[str]:
    return [hit.chat.id for hit in store.search(query, scope=scope).hits]


@pytest.mark.parametrize(
    ("query", "hit"),
    [
        ("用户", "用户"),
        ("身份", "身份"),
        ("後", "後"),
        ("itgc", "itgc"),
        ("確認GEN", "確認gen"),
        ("café", "cafe\u0301"),
        ("CAFE", "cafe\u0301"),
        ("abc", "ＡＢＣ"),
        ("Straße", "ſtraße"),
        ("strasse", "ſtraße"),
        ("don't", "don't"),
        ("POL-358", "POL-358"),
        ("38.1", "38.1"),
        ("*", "**"),
        ("100%", "100%"),
        ("a_b", "a_b"),
        ("(x", "(x"),
        ("が", "か\u3099"),
        ("wor", "wor"),
        ("ﬁne", "ﬁne"),
    ],
)
def test_a_text_is_found_however_it_is_written(store: Store, query: str, hit: str):
    make_chat(
        store,
        texts=[
            f"{MIXED} don't POL-358 38.101 か\u3099 ﬁne",
            "cafe\u0301 ＡＢＣ ſtraße hello world ** 100% a_b (x",
        ],
    )
    assert hit in found(store, query)


@pytest.mark.parametrize(
    "query",
    [
        *('"', '"a b', "a:b", "(z", "AND", "NEAR(", "-x", "\\", "'", "question:hello", "{a b}:c"),
        *("x" * 10_000, "a b " * 3_000, "a\0b", "\ud83d", "^hello", "hello NOT", "\u200b"),
    ],
)
def test_what_means_something_elsewhere_is_only_text(store: Store, query: str):
    make_chat(store, texts=["hello world", "another text"])
    assert store.search(query).hits == ()


@pytest.mark.parametrize("query", ["", " ", "\n\t", "\u3000"])
def test_nothing_is_found_by_nothing(store: Store, query: str):
    make_chat(store, texts=["hello"])
    assert store.search(query).hits == ()


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(query=st.text(max_size=60), scope=st.sampled_from(ChatScope))
def test_any_text_is_a_query(store: Store, query: str, scope: ChatScope):
    for hit in store.search(query, scope=scope).hits:
        assert all(0 <= a < b <= len(hit.snippet.text) for a, b in hit.snippet.places)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(words=st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), min_size=1))
def test_every_word_of_a_message_finds_it(store: Store, words: list[str]):
    text = " ".join(words).replace("\0", "")
    message = make_message(None, "user", text)
    make_chat(store, chat_id=message.hash, texts=[text])
    for word in text.split():
        if fold(word).split():
            results = store.search(word[:300])
            hashes = {hit.message_hash for hit in results.hits}
            assert message.hash in hashes or results.is_cut


def test_all_words_must_be_there_in_any_order(store: Store):
    make_chat(store, texts=["the green apple", "a red cherry"])
    assert found(store, "apple green") == ["green", "apple"]
    assert store.search("green cherry").hits == ()


def test_whole_words_come_before_parts_and_questions_before_answers(store: Store):
    make_chat(store, chat_id="part", texts=["pineapples are here"])
    make_chat(store, chat_id="answer", texts=["which fruit", "an apple is a fruit"])
    make_chat(store, chat_id="question", texts=["an apple is a fruit"])
    assert titles(store, "apple") == ["question", "answer", "part"]


def test_titles_are_found_and_come_first(store: Store):
    make_chat(store, chat_id="a", texts=["about cherry trees"])
    make_chat(store, chat_id="b", texts=["other"])
    store.submit(Write(chat_changes=(change_chat("b", title="Cherry pie"),)))
    hits = store.search("cherry").hits
    assert [(hit.chat.id, hit.message_hash is None) for hit in hits] == [("b", True), ("a", False)]


def test_system_texts_and_thoughts_are_not_searched(store: Store):
    system = make_message(None, "system", "secretword")
    asked = make_message(system.hash, "user", "plainword")
    told = make_message(asked.hash, "assistant", "<think>hiddenword</think>saidword")
    cut = make_message(told.hash, "assistant", "<think>endlessword")
    make_chat(store)
    store.submit(
        Write(
            messages=(system, asked, told, cut),
            chat_changes=(change_chat("chat", tip_hash=cut.hash),),
        )
    )
    assert store.writer.flush()
    counts = {word: len(store.search(word).hits) for word in ("secretword", "plainword")}
    assert counts == {"secretword": 0, "plainword": 1}
    assert [len(store.search(w).hits) for w in ("hiddenword", "saidword", "endlessword")] == [
        0,
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("answer", "is_found"),
    [
        ("[THINK]needle[/THINK] said", False),
        ("opened by the prompt: needle\n</think>\n\nsaid", False),
        ("the mark </think> in a needle", True),
        ("needle\n<think>\nquoted\n</think>", True),
        ("needle", True),
    ],
)
def test_only_what_is_surely_a_thought_is_left_out(store: Store, answer: str, is_found: bool):
    make_chat(store, texts=["question", answer])
    assert bool(store.search("needle").hits) is is_found


def test_a_snippet_is_one_line_around_the_hit(store: Store):
    make_chat(store, texts=["before " * 300 + "\n\n needle\there " + "after " * 300])
    (hit,) = store.search("needle").hits
    ((start, end),) = hit.snippet.places
    assert hit.snippet.text[start:end] == "needle"
    assert hit.snippet.text.startswith("before")
    assert "needle here after" in hit.snippet.text
    assert len(hit.snippet.text) <= 240


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("Cathedral and the other", "the", ["the"]),
        ("Cathedral, other", "the", ["the", "the"]),
        ("a heathen, then THE end", "the end", ["THE", "end"]),
        ("heathen and then", "the", ["the"]),
        ("snake_case in_case", "case", ["case", "case"]),
        ("Die Stra\xdfe, stra\xdfenbahn", "strasse", ["Stra\xdfe"]),
        ("c++ or c, abc++", "c++", ["c++"]),
        ("\u9ed2\u732b\u3067\u3059", "\u732b", ["\u732b"]),
        ("lathe " * 99 + "the " + "bathe " * 99, "the", ["the"]),
        ("the" + "n" * 9 + " lathe the", "the", ["the"]),
    ],
)
def test_a_word_is_marked_where_it_is_one(store: Store, text: str, query: str, marked: list[str]):
    make_chat(store, texts=[text, "-"])
    (hit,) = [hit for hit in store.search(query).hits if hit.role == "user"]
    snippet = hit.snippet
    assert [snippet.text[start:end] for start, end in snippet.places] == marked


def test_a_snippet_of_a_text_that_folds_to_another_length_has_the_hit(store: Store):
    make_chat(store, texts=["ß" * 3_000 + " Nadel " + "e\u0301" * 3_000])
    assert found(store, "nadel") == ["Nadel"]


def test_a_hit_tells_whether_it_is_on_the_chats_branch(store: Store):
    chat = make_chat(store, texts=["question", "first answer"])
    assert chat.tip_hash is not None
    parent = store.path_to(chat.tip_hash)[0].hash
    other = make_message(parent, "assistant", "second answer")
    turns = [
        make_turn(turn_id=name, parent_hash=parent, tip_hash=tip, status=TurnStatus.DONE)
        for name, tip in (("one", chat.tip_hash), ("two", other.hash))
    ]
    store.submit(Write(messages=(other,), turns=turns)).result(10)
    hits = store.search("answer").hits
    assert {hit.message_hash: hit.is_on_branch for hit in hits} == {
        chat.tip_hash: True,
        other.hash: False,
    }


def test_a_fork_does_not_multiply_hits_and_stands_in_for_a_deleted_origin(store: Store):
    chat = make_chat(store, texts=["question", "answer"])
    first, tip = store.path_to(chat.tip_hash)
    turn = make_turn(parent_hash=first.hash, tip_hash=tip.hash, status=TurnStatus.DONE)
    store.submit(Write(turns=(turn,))).result(10)
    fork = store.fork("chat", at_hash=tip.hash)
    store.writer.flush()
    assert titles(store, "answer") == ["chat"]
    store.submit(Write(chat_changes=(change_chat("chat", deleted_at=5.0),))).result(10)
    assert titles(store, "answer") == [fork.id]
    assert titles(store, "answer", ChatScope.DELETED) == ["chat"]


def test_the_scope_says_which_chats(store: Store):
    for chat_id in ("listed", "archived", "deleted"):
        make_chat(store, chat_id=chat_id, texts=[f"needle {chat_id}"])
    store.submit(
        Write(
            chat_changes=(
                change_chat("archived", archived_at=1.0),
                change_chat("deleted", deleted_at=1.0),
            )
        )
    )
    assert set(titles(store, "needle")) == {"listed", "archived"}
    assert titles(store, "needle", ChatScope.ARCHIVED) == ["archived"]
    assert titles(store, "needle", ChatScope.DELETED) == ["deleted"]


def test_what_is_purged_is_not_found(store: Store):
    chat = make_chat(store, texts=["keepme", "needle"])
    first, tip = store.path_to(chat.tip_hash)
    store.submit(Write(chat_changes=(change_chat("chat", deleted_at=1.0),)))
    keeper = store.fork("chat", at_hash=first.hash)
    store.submit(Purge(time.time())).result(10)
    reader = store._reader()
    for table in ("search_texts", "search_pending"):
        hashes = [row[0] for row in reader.execute(f"SELECT message_hash FROM {table}")]
        assert tip.hash not in hashes
    matches = reader.execute("SELECT count(*) FROM search_words WHERE search_words MATCH 'needle'")
    assert matches.fetchone() == (0,)
    assert titles(store, "keepme") == [keeper.id]


def test_results_are_bounded_and_say_so(store: Store):
    messages = [make_message(None, "user", f"needle {n}") for n in range(MAX_HITS + 5)]
    chats = [Chat(f"c{n}", "", m.hash, "", "", 1.0, 1.0) for n, m in enumerate(messages)]
    store.submit(Write(messages=messages, new_chats=chats)).result(10)
    result = store.search("needle")
    assert len(result.hits) == MAX_HITS
    assert result.is_cut
    assert not store.search("needle 7").is_cut
