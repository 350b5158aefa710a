"""The message tree: names, sharing, forks, verification, sweeping."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlite_utils import Database

from localpaged.store import tree
from localpaged.store.database import transaction
from localpaged.store.migrations import migrations
from localpaged.store.rows import Chat, Message, TurnStatus
from localpaged.store.sweep import purge
from localpaged.store.tree import make_message, message_hash
from localpaged.store.writes import Write
from testkit.builders import make_turn

TEXTS = st.text(st.characters(codec=None), max_size=20)
# Few different texts, so that conversations really begin alike.
ALIKE = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=6)


def make_db() -> Database:
    db = Database(memory=True)
    migrations.apply(db)
    db.execute("PRAGMA foreign_keys = ON")
    return db


def chain(texts: Sequence[str]) -> list[Message]:
    messages: list[Message] = []
    for index, text in enumerate(texts):
        parent_hash = messages[-1].hash if messages else None
        messages.append(make_message(parent_hash, ("user", "assistant")[index % 2], text))
    return messages


def put_chat(db: Database, chat_id: str, texts: Sequence[str], *, deleted_at: float | None) -> None:
    messages = chain(texts)
    chat = Chat(chat_id, "", messages[-1].hash, "", "", 1.0, 1.0, deleted_at)
    Write(messages=messages, new_chats=(chat,)).apply(db, run_id="run")


def prefixes(conversations: Sequence[Sequence[str]]) -> set[tuple[str, ...]]:
    return {tuple(c[: i + 1]) for c in conversations for i in range(len(c))}


def num_messages(db: Database) -> int:
    return db.table("messages").count


def test_a_hash_is_blake2b_over_canonical_json():
    canonical = json.dumps(
        {
            "message": {"parts": [{"text": "h\u00e9", "type": "text"}], "role": "user"},
            "parent": None,
        },
        separators=(",", ":"),
    )
    digest = hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()
    assert message_hash(None, "user", "h\u00e9") == f"b2:{digest}"


def test_a_hash_covers_role_text_and_the_whole_way_to_the_root():
    root, other = make_message(None, "user", "a"), make_message(None, "user", "b")
    variants = [
        make_message(root.hash, "user", "x"),
        make_message(root.hash, "assistant", "x"),
        make_message(root.hash, "user", "y"),
        make_message(other.hash, "user", "x"),
        make_message(None, "user", "x"),
    ]
    assert len({message.hash for message in variants}) == len(variants)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_any_conversation_comes_back_as_it_was(texts: list[str]):
    db = make_db()
    messages = chain(texts)
    tree.insert_messages(db, messages)
    assert tree.read_path(db, messages[-1].hash) == messages
    assert tree.verify(db) == []


@given(st.lists(ALIKE, min_size=1, max_size=6))
def test_conversations_share_the_rows_of_a_common_beginning(conversations: list[list[str]]):
    db = make_db()
    for texts in conversations:
        tree.insert_messages(db, chain(texts))
    assert num_messages(db) == len(prefixes(conversations)) == db.table("parts").count
    for texts in conversations:
        assert [m.text for m in tree.read_path(db, chain(texts)[-1].hash)] == texts


@given(
    st.lists(st.tuples(ALIKE, st.booleans()), min_size=1, max_size=6),
    st.lists(ALIKE, max_size=2),
)
def test_sweeping_keeps_exactly_what_living_chats_and_turns_need(
    chats: list[tuple[list[str], bool]], abandoned: list[list[str]]
):
    db = make_db()
    for index, (texts, is_deleted) in enumerate(chats):
        put_chat(db, f"c{index}", texts, deleted_at=5.0 if is_deleted else None)
    for texts in abandoned:
        tree.insert_messages(db, chain(texts))
    living = [texts for texts, is_deleted in chats if not is_deleted]

    with transaction(db):
        num_purged = purge(db, deleted_before=6.0)

    assert num_purged == len(chats) - len(living)
    for texts in living:
        assert [m.text for m in tree.read_path(db, chain(texts)[-1].hash)] == texts
    needed = prefixes(living if num_purged else living + abandoned)
    assert num_messages(db) == len(needed) == db.table("parts").count
    assert tree.verify(db) == []
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def test_other_answers_of_a_living_chat_survive_the_sweep():
    db = make_db()
    put_chat(db, "chat", ["q", "kept"], deleted_at=None)
    put_chat(db, "gone", ["q", "gone"], deleted_at=5.0)
    sibling = make_message(chain(["q"])[0].hash, "assistant", "sibling")
    done = make_turn(parent_hash=sibling.parent_hash, tip_hash=sibling.hash, status=TurnStatus.DONE)
    Write(messages=(sibling,), turns=(done,)).apply(db, run_id="run")

    with transaction(db):
        purge(db, deleted_before=6.0)

    assert tree.read_path(db, sibling.hash)[-1] == sibling
    assert tree.read_path(db, chain(["q", "gone"])[-1].hash) == []


def test_a_chat_deleted_later_is_not_purged_yet():
    db = make_db()
    put_chat(db, "chat", ["q"], deleted_at=7.0)
    assert purge(db, deleted_before=6.0) == 0
    assert num_messages(db) == 1


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE parts SET text = 'forged'",
        "UPDATE messages SET role = 'system'",
        "UPDATE messages SET parent_hash = NULL",
        "DELETE FROM parts",
    ],
)
def test_verify_names_messages_whose_rows_were_changed(tampering: str):
    db = make_db()
    first, second = chain(["a", "b"])
    tree.insert_messages(db, (first, second))
    db.execute(f"{tampering} WHERE {_key(tampering)} = ?", [second.hash])
    assert tree.verify(db) == [second.hash]


def test_verify_names_messages_without_their_parent():
    db = make_db()
    first, second = chain(["a", "b"])
    tree.insert_messages(db, (first, second))
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute("DELETE FROM messages WHERE hash = ?", [first.hash])
    assert tree.verify(db) == [second.hash]


def test_a_message_of_several_text_parts_reads_as_one():
    db = make_db()
    (message,) = chain(["a"])
    tree.insert_messages(db, (message,))
    db.table("parts").insert(
        {"message_hash": message.hash, "position": 1, "type": "text", "text": "b"}
    )
    assert tree.read_path(db, message.hash)[0].text == "ab"


def _key(statement: str) -> str:
    return "message_hash" if "parts" in statement else "hash"
