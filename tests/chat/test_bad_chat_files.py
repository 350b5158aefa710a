"""Files that are no chats, or hostile ones: one sentence, and nothing of the history changes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localpaged.chat.portable.importing import import_file
from localpaged.chat.portable.records import MAX_NAME_CHARS
from localpaged.chat.portable.report import ImportReport, Outcome
from localpaged.chat.title import MAX_TITLE_CHARS
from localpaged.errors import BadChatFile
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store, new_id
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat
from testkit.builders import make_chat, make_turn


def write_answered(store: Store) -> str:
    """A chat with one answer and its turn."""
    chat = make_chat(store, chat_id=new_id())
    asked = make_message(None, "user", "hello")
    answer = make_message(asked.hash, "assistant", "hello 1")
    turn = make_turn(
        turn_id=new_id(),
        chat_id=chat.id,
        parent_hash=asked.hash,
        tip_hash=answer.hash,
        status=TurnStatus.DONE,
    )
    change = change_chat(chat.id, tip_hash=answer.hash)
    store.submit(Write(messages=(asked, answer), chat_changes=(change,), turns=(turn,))).result(10)
    return chat.id


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04rest", "unpack it"),
        (b"\xff\xfe\x00garbage", "not text in UTF-8"),
        (b"hello", "neither a JSON list nor an object"),
        (b'{"a": 1}', "of another program"),
        (b"[1, 2]", "is not an object"),
        (b"[]", None),
        (b'{"format": "localpaged-chats", "version": 99, "chats": []}', "version is 99"),
        (b'{"format": "localpaged-chats", "version": 1, "chats": [', "ends too early"),
        (b'{"format": "localpaged-chats", "version": 1, "chats": [{"messages": 5}]}', "chat 1"),
        (
            b'{"format": "localpaged-chats", "version": 1, "chats": [{"tip": "a", "messages": '
            b'[{"id": "a", "parent": "a", "role": "user", "text": "x"}]}]}',
            "no message that can be read",
        ),
        (b'{"format": "localpaged-chats", "version": %b, "chats": []}' % (b"9" * 999), "…"),
        (b"[" * 100_000, "nested too deeply"),
        (b'[{"mapping": {}}]', "no message"),
        (b"[NaN]", "no JSON number"),
        (b"---\nformat: localpaged-markdown 1\n---\n", "has no mark"),
        (b"---\nformat: localpaged-markdown 1\nmark", "no line “---” ends"),
        (b"---\ntitle: other\n---\n# Notes\n", "its first line is not “---”, followed by “format"),
        (b'---\nformat: localpaged-markdown 1\nmark: "message"\n---\nx', "end is missing"),
    ],
)
def test_a_bad_file_gets_one_clear_sentence(
    store: Store, tmp_path: Path, content: bytes, sentence: str | None
):
    path = tmp_path / "bad"
    path.write_bytes(content)
    if sentence is None:
        assert import_file(store, path) == ImportReport((), (), 0)
        return
    with pytest.raises(BadChatFile, match=sentence) as caught:
        import_file(store, path)
    assert str(path) in caught.value.message
    assert caught.value.message.endswith(".")
    assert len(caught.value.message) < len(str(path)) + 400
    assert store.chats() == []


@pytest.mark.parametrize("content", ["# Notes\n", "\n---\nformat: x\n---\n", "x" * 5_000])
def test_a_markdown_file_that_is_none_of_ours_is_told_how_one_begins(
    store: Store, tmp_path: Path, content: str
):
    path = tmp_path / "notes.md"
    path.write_text(content)
    with pytest.raises(BadChatFile, match='“---”, followed by “format: "localpaged-markdown 1"”'):
        import_file(store, path)


def test_no_path_no_model_and_no_foreign_id_of_a_file_is_used(store: Store, tmp_path: Path):
    victim = write_answered(store)
    mine = store.whole_chat(victim)
    turn = mine.turns[0]
    record = {
        "id": victim,
        "title": "../../x",
        "model": "/etc/passwd",
        "tip": "a",
        "options": {"temperature": "hot", "grammar": {"kind": "lark"}},
        "messages": [
            {"id": "a", "parent": None, "role": "user", "text": "other words\ud83d"},
            {"id": "b", "parent": "a", "role": "tool", "text": "x"},
            {"id": "c", "parent": "nowhere", "role": "user", "text": "x"},
            7,
        ],
        "turns": [{"id": turn.id, "question": "a", "answer": "a", "status": "done"}, {}],
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"format": "localpaged-chats", "version": 1, "chats": [record]}))
    report = import_file(store, path)
    assert report.num_problems == 4
    assert store.whole_chat(victim) == mine
    record["id"] = "../../../etc"
    path.write_text(json.dumps({"format": "localpaged-chats", "version": 1, "chats": [record]}))
    (imported,) = import_file(store, path).chats
    assert imported.outcome is Outcome.NEW
    assert (imported.chat.model, imported.chat.options) == ("", "{}")
    assert store.turn(turn.id) == turn
    assert store.path_to(imported.chat.tip_hash)[0].text == "other words\ufffd"


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.just(10**400),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
        st.sampled_from(["a", "b", "user", "assistant", "system", "done", "text", "0001-01-01"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    *("id", "parent", "role", "text", "messages", "turns", "tip", "options"),
                    *("mapping", "message", "author", "content", "parts", "content_type"),
                    *("created_at", "create_time", "status", "question", "answer", "thought"),
                ]
            ),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=20,
)


@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(records=st.lists(JSON, max_size=3), is_ours=st.booleans())
def test_no_json_makes_an_import_fail_otherwise(
    store: Store, tmp_path: Path, records: list[object], is_ours: bool
):
    ours = {"format": "localpaged-chats", "version": 1, "chats": records}
    path = tmp_path / "x.json"
    path.write_text(json.dumps(ours if is_ours else records))
    with suppress(BadChatFile):
        import_file(store, path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.text(max_size=60), front=st.text(max_size=30))
def test_no_markdown_makes_an_import_fail_otherwise(
    store: Store, tmp_path: Path, body: str, front: str
):
    path = tmp_path / "x.md"
    head = f'---\nformat: "localpaged-markdown 1"\nmark: "message"\n{front}\n---\n'
    path.write_bytes((head + body).encode("utf-8", "surrogatepass"))
    with suppress(BadChatFile):
        import_file(store, path)


def test_times_and_numbers_of_any_size_are_no_trouble(store: Store, tmp_path: Path):
    record = {
        "title": "x",
        "tip": "a",
        "created_at": 10**400,
        "updated_at": "0001-01-01T00:00:00+14:00",
        "archived_at": 1e300,
        "messages": [{"id": "a", "parent": None, "role": "user", "text": "t"}],
        "turns": [
            {"answer": "a", "status": "done", "seed": 10**400, "ttft_s": -(10**400)},
        ],
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"format": "localpaged-chats", "version": 1, "chats": [record]}))
    (imported,) = import_file(store, path).chats
    assert (imported.chat.created_at, imported.chat.updated_at) == (0.0, 0.0)
    assert imported.chat.archived_at is None
    (turn,) = store.whole_chat(imported.chat.id).turns
    assert (turn.seed, turn.ttft_s) == (None, None)


def test_names_as_long_as_books_are_cut(store: Store, tmp_path: Path):
    book = "word " * 200_000
    asked = {"id": "a", "parent": None, "role": "user", "text": "t"}
    answer = {"id": "b", "parent": "a", "role": "assistant", "text": book}
    record = {
        "title": book,
        "tip": "b",
        "messages": [asked, answer],
        "turns": [{"answer": "b", "parent": "a", "status": "done", "model": book}],
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"format": "localpaged-chats", "version": 1, "chats": [record]}))
    (imported,) = import_file(store, path).chats
    whole = store.whole_chat(imported.chat.id)
    assert len(whole.chat.title) == MAX_TITLE_CHARS
    assert [len(turn.model) for turn in whole.turns] == [MAX_NAME_CHARS]
    assert whole.messages[1].text == book
