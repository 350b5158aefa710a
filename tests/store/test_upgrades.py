"""Histories of every earlier schema open with all they had, and so does the copy made before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlite_utils import Database, Migrations

from localpaged.store import database
from localpaged.store.database import connect, open_database, transaction
from localpaged.store.migrations import migrations
from localpaged.store.search_index import index_message
from localpaged.store.store import Store
from localpaged.store.tree import make_message

STEPS = migrations.pending(Database(memory=True))
TEXTS = ("Why [is] the sky blue?", "Rayleigh \x1b[31mscattering\u202e, für 用户.")


def only(number: int) -> Migrations:
    """The first so many steps, as an older version had them."""
    older = Migrations("localpaged")
    for step in STEPS[:number]:
        older(name=step.name)(step.fn)
    return older


def write_rows(db: Database) -> None:
    """A conversation and a fork that is deleted, with the columns that every version has."""
    question = make_message(None, "user", TEXTS[0])
    answer = make_message(question.hash, "assistant", TEXTS[1])
    with transaction(db):
        for message in (question, answer):
            db.execute(
                "INSERT INTO messages (hash, parent_hash, role, created_at) VALUES (?, ?, ?, 1.0)",
                [message.hash, message.parent_hash, message.role],
            )
            db.execute(
                "INSERT INTO parts (message_hash, position, type, text) VALUES (?, 0, 'text', ?)",
                [message.hash, message.text],
            )
            if "search_texts" in db.table_names():
                index_message(db, message.hash, message.role, message.text)
        for id_, deleted_at, origin in (("chat", None, None), ("fork", 4e9, "chat")):
            db.execute(
                "INSERT INTO chats (id, title, tip_hash, model, draft, created_at, updated_at,"
                " deleted_at, forked_from) VALUES (?, 'Sky', ?, 'm', 'a draft', 1.0, 2.0, ?, ?)",
                [id_, answer.hash, deleted_at, origin],
            )
        db.execute(
            "INSERT INTO turns (id, chat_id, parent_hash, tip_hash, status, model, options, seed,"
            " prompt_tokens, completion_tokens, created_at)"
            " VALUES ('turn', 'chat', ?, ?, 'done', 'm', '{}', 7, 12, 34, 1.0)",
            [question.hash, answer.hash],
        )


def assert_complete(path: Path) -> None:
    store = Store.open(path)
    conversation = store.conversation("chat")
    assert tuple(message.text for message in conversation.messages) == TEXTS
    assert (conversation.chat.title, conversation.chat.draft) == ("Sky", "a draft")
    (turn,) = conversation.turns
    assert (turn.seed, turn.prompt_tokens, turn.completion_tokens) == (7, 12, 34)
    fork = store.chat("fork")
    assert (fork.forked_from, fork.deleted_at) == ("chat", 4e9)
    assert [chat.id for chat in store.chats()] == ["chat"]
    assert store.verify() == []
    store.writer.flush()
    assert {hit.role for hit in store.search("sky").hits} >= {"user"}
    assert store.search("用户").hits
    assert store.close() is None


@pytest.fixture
def older(database_path: Path, monkeypatch: pytest.MonkeyPatch):
    def make(number: int) -> Path:
        with monkeypatch.context() as before:
            before.setattr(database, "migrations", only(number))
            db, path = open_database(database_path)
        write_rows(db)
        db.close()
        return path

    return make


@pytest.mark.parametrize("number", range(1, len(STEPS)), ids=[step.name for step in STEPS[:-1]])
def test_a_history_of_every_version_keeps_all_it_had(older, number):
    path = older(number)
    assert_complete(path)
    (copy,) = (path.parent / "backups").glob("*.db")
    assert copy.name.endswith(f"-before-{STEPS[number].name}.db")
    assert migrations.pending(connect(path)) == []
    # nothing was to be done at the second start
    assert_complete(path)
    assert len(list((path.parent / "backups").glob("*.db"))) == 1


@pytest.mark.parametrize("number", [1, len(STEPS) - 1])
def test_the_copy_put_in_its_place_is_the_history_again(older, number):
    path = older(number)
    Store.open(path).close()
    (copy,) = (path.parent / "backups").glob("*.db")
    path.write_bytes(b"damaged" * 2_000)
    shutil.copy(copy, path)
    assert_complete(path)
