"""The schema and its steps."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest
from sqlite_utils import Database, Migrations

from localpaged.errors import DatabaseTooNew, DiskFull
from localpaged.store import database
from localpaged.store.backup import backup
from localpaged.store.database import connect, open_database, transaction
from localpaged.store.migrations import m001_initial, migrations
from localpaged.store.store import Store
from localpaged.store.tree import make_message
from testkit.builders import make_chat

TABLES = {"messages", "parts", "chats", "turns", "partials", "runs", "prompts"}


def copy_of_all_steps() -> Migrations:
    """Return the steps of this version, to which a test may add."""
    copy = Migrations("localpaged")
    for step in migrations.pending(Database(memory=True)):
        copy(name=step.name)(step.fn)
    return copy


def with_later_steps(monkeypatch: pytest.MonkeyPatch, *, up_to: int = 901) -> None:
    """Pretend that later versions add a column each."""
    later = copy_of_all_steps()
    for n in range(901, up_to + 1):
        later(name=f"m{n}_later")(lambda db, n=n: db.table("chats").add_column(f"c{n}", str))
    monkeypatch.setattr(database, "migrations", later)


def backups(path: Path) -> list[Path]:
    return sorted((path.parent / "backups").glob("*.db"))


def test_a_blank_file_gets_every_table_and_no_backup(database_path: Path):
    db, path = open_database(database_path)
    assert set(db.table_names()) >= TABLES
    assert migrations.pending(db) == []
    assert backups(path) == []


def test_migrating_again_changes_nothing(database_path: Path):
    db, path = open_database(database_path)
    schema = db.schema
    db.close()
    again, _ = open_database(path)
    assert again.schema == schema
    assert backups(path) == []


def test_foreign_keys_are_on_and_commits_are_on_the_disk(database_path: Path):
    db, _ = open_database(database_path)
    assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO parts (message_hash, position, type) VALUES ('none', 0, 'text')")


def test_a_pending_step_is_preceded_by_a_private_copy(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = Store.open(database_path)
    make_chat(store, texts=["question", "answer"])
    store.close()
    with_later_steps(monkeypatch)

    db, path = open_database(database_path)

    assert "c901" in db.table("chats").columns_dict
    (copy,) = backups(path)
    assert "before-m901_later" in copy.name
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    old = connect(copy, is_reader=True)
    assert "c901" not in old.table("chats").columns_dict
    assert old.table("messages").count == 2


def test_a_history_of_the_first_version_is_copied_and_keeps_its_answers(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = Migrations("localpaged")
    first()(m001_initial)
    with monkeypatch.context() as before:
        before.setattr(database, "migrations", first)
        db, path = open_database(database_path)
    with transaction(db):
        answer = make_message(None, "assistant", "old answer")
        db.execute(
            "INSERT INTO messages (hash, role, created_at) VALUES (?, 'assistant', 1.0)",
            [answer.hash],
        )
        db.execute(
            "INSERT INTO parts (message_hash, position, type, text) VALUES (?, 0, 'text', ?)",
            [answer.hash, answer.text],
        )
        db.execute(
            "INSERT INTO chats (id, title, tip_hash, model, draft, created_at, updated_at)"
            " VALUES ('chat', 't', ?, 'm', '', 1.0, 1.0)",
            [answer.hash],
        )
        db.execute(
            "INSERT INTO turns (id, chat_id, tip_hash, status, model, options, created_at)"
            " VALUES ('turn', 'chat', ?, 'done', 'm', '{}', 1.0)",
            [answer.hash],
        )
    db.close()

    store = Store.open(path)

    (copy,) = backups(path)
    assert "before-m002_prompt_tokens" in copy.name
    assert "prompts" not in connect(copy, is_reader=True).table_names()
    (turn,) = store.conversation("chat").turns
    assert (turn.token_ids, turn.model_fingerprint, turn.cache_report) == (None, None, None)
    assert store.last_sent("chat") is None
    store.writer.flush()
    assert [hit.message_hash for hit in store.search("old").hits] == [answer.hash]
    chat = store.chat("chat")
    assert (chat.options, chat.system, chat.archived_at) == ("{}", None, None)
    assert (chat.is_unread, chat.view_hash) == (False, None)
    # whoever answered last is no choice: each run answers with its default
    assert (chat.model, chat.is_hidden) == ("", False)
    assert store.compares() == []
    store.close()


def test_three_copies_are_kept(database_path: Path, monkeypatch: pytest.MonkeyPatch):
    open_database(database_path)[0].close()
    for number in range(901, 906):
        with_later_steps(monkeypatch, up_to=number)
        open_database(database_path)[0].close()
    names = [copy.name for copy in backups(database_path)]
    assert [name[-len("m903_later.db") :] for name in names] == [
        "m903_later.db",
        "m904_later.db",
        "m905_later.db",
    ]


def test_copies_of_one_second_do_not_overwrite_each_other(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
):
    db, path = open_database(database_path)
    monkeypatch.setattr("time.strftime", lambda _: "20260101-000000")
    made = {backup(db, path, label="before-x") for _ in range(3)}
    assert set(backups(path)) == made
    assert len(made) == 3


def test_a_step_that_fails_leaves_the_database_as_it_was(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = Store.open(database_path)
    make_chat(store, texts=["question"])
    store.close()
    broken = copy_of_all_steps()

    @broken()
    def m901_broken(db: Database) -> None:
        db.table("chats").add_column("half", str)
        raise RuntimeError("power cut")

    monkeypatch.setattr(database, "migrations", broken)
    with pytest.raises(RuntimeError, match="power cut"):
        open_database(database_path)

    monkeypatch.undo()
    monkeypatch.setenv("LOCALPAGED_HOME", str(database_path.parent.parent))
    reopened = Store.open(database_path)
    assert [m.text for m in reopened.conversation("chat").messages] == ["question"]
    assert "half" not in connect(database_path).table("chats").columns_dict
    reopened.close()


def test_a_full_disk_during_the_copy_changes_nothing(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
):
    open_database(database_path)[0].close()
    with_later_steps(monkeypatch)

    def full(db: Database, path: Path, *, label: str) -> Path:
        (path.parent / "backups").mkdir()
        db.execute("ATTACH ? AS tiny", [str(path.parent / "tiny.db")])
        db.execute("PRAGMA tiny.max_page_count = 1")
        db.execute("CREATE TABLE tiny.t (x)")
        raise AssertionError("the disk was not full")

    monkeypatch.setattr(database, "backup", full)
    with pytest.raises(DiskFull):
        open_database(database_path)
    assert "c901" not in connect(database_path).table("chats").columns_dict


def test_a_copy_that_fails_leaves_no_file_behind(database_path: Path):
    db, path = open_database(database_path)
    db.begin()
    with pytest.raises(sqlite3.OperationalError):  # VACUUM cannot run inside a transaction
        backup(db, path, label="before-x")
    assert backups(path) == []


def test_a_database_of_a_newer_version_is_refused_and_untouched(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as newer:
        with_later_steps(newer)
        open_database(database_path)[0].close()
    before = database_path.read_bytes()
    with pytest.raises(DatabaseTooNew, match="m901_later") as caught:
        open_database(database_path)
    assert "Update localpaged" in caught.value.hint
    assert database_path.read_bytes() == before
