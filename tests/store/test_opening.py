"""Opening what is there: good, damaged, foreign, forbidden."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlite_utils import Database

from localpaged import paths
from localpaged.errors import DatabaseDamaged, StoreError
from localpaged.store.database import connect, open_database, set_journal
from localpaged.store.facts import read_facts, read_runs
from localpaged.store.locks import exclusive
from localpaged.store.store import Store
from testkit.builders import make_chat

NOBODY = 65_534


@pytest.fixture
def as_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of an ordinary user, and the test running as one: to root nothing is forbidden."""
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setenv("LOCALPAGED_HOME", str(folder / "home"))
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(folder)


def test_the_journal_is_a_write_ahead_log(database_path: Path):
    db, _ = open_database(database_path)
    assert db.journal_mode == "wal"


def test_where_a_write_ahead_log_is_refused_a_rollback_journal_is_used(tmp_path: Path):
    path = tmp_path / "remote.db"
    # This file system layer has no shared memory, as network file systems have none.
    connection = sqlite3.connect(f"{path.as_uri()}?vfs=unix-dotfile", uri=True)
    db = Database(connection)
    db.execute("CREATE TABLE t (x)")
    assert set_journal(db) == "delete"


def test_an_error_instead_of_an_answer_also_means_a_rollback_journal(tmp_path: Path):
    path = tmp_path / "remote.db"
    Database(str(path)).table("t").insert({"x": 1})
    # Asked for a write-ahead log, a read-only connection raises, as some network mounts do.
    db = Database(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True))
    assert set_journal(db) == "delete"


@pytest.mark.parametrize(
    "content", [b"<html>404</html>" * 100, b"SQLite format 3\0" + b"\xff" * 5_000]
)
def test_a_file_that_is_no_database_is_refused_and_kept(database_path: Path, content: bytes):
    database_path.parent.mkdir(parents=True)
    database_path.write_bytes(content)
    with pytest.raises(DatabaseDamaged, match=r"chats\.db") as caught:
        Store.open(database_path)
    assert "Move it away" in caught.value.hint
    assert database_path.read_bytes() == content


def test_a_damaged_page_is_told_and_not_hidden(database_path: Path):
    store = Store.open(database_path)
    make_chat(store, texts=["question", "answer " * 2_000])
    store.close()
    content = bytearray(database_path.read_bytes())
    content[4_096 : len(content)] = b"\xff" * (len(content) - 4_096)
    database_path.write_bytes(content)
    with pytest.raises(DatabaseDamaged):
        Store.open(database_path).chats()


def test_a_database_of_another_program_is_refused(database_path: Path):
    database_path.parent.mkdir(parents=True)
    other = Database(str(database_path))
    other.table("bookmarks").insert({"url": "x"})
    other.close()
    with pytest.raises(DatabaseDamaged, match="not one of localpaged"):
        open_database(database_path)
    assert Database(str(database_path)).table_names() == ["bookmarks"]


def test_a_folder_in_the_place_of_the_database_is_refused(database_path: Path):
    database_path.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"chats\.db"):
        open_database(database_path)


def test_a_read_only_file_is_refused(as_ordinary_user: Path):
    path = as_ordinary_user / "chats.db"
    Store.open(path).close()
    path.chmod(0o400)
    with pytest.raises(StoreError, match="cannot be written") as caught:
        Store.open(path)
    assert "write access" in caught.value.hint


def test_a_read_only_folder_is_refused(as_ordinary_user: Path):
    folder = as_ordinary_user / "locked"
    Store.open(folder / "chats.db").close()
    folder.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            Store.open(folder / "chats.db")
        with pytest.raises(StoreError, match="cannot be written"):
            Store.open(folder / "new.db")
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_cannot_be_written_can_be_looked_at(as_ordinary_user: Path, is_folder: bool):
    path = as_ordinary_user / "locked" / "chats.db"
    store = Store.open(path)
    make_chat(store, texts=["question", "answer"])
    store.close()
    locked = path.parent if is_folder else path
    locked.chmod(0o500 if is_folder else 0o400)
    try:
        assert read_facts(path).messages == 2
        assert read_runs(path, limit=3) == []
    finally:
        path.parent.chmod(0o700)


def test_a_link_to_another_users_file_is_not_followed(as_ordinary_user: Path):
    path = as_ordinary_user / "chats.db"
    path.symlink_to("/etc/passwd")
    with pytest.raises(StoreError, match="another user"):
        open_database(path)


def test_a_link_to_a_file_that_is_not_there_makes_none(tmp_path: Path):
    (tmp_path / "chats.db").symlink_to(tmp_path / "unmounted" / "chats.db")
    with pytest.raises(StoreError, match="not there"):
        open_database(tmp_path / "chats.db")
    assert not (tmp_path / "unmounted").exists()


def test_a_link_to_ones_own_file_is_followed(tmp_path: Path):
    target = tmp_path / "elsewhere" / "real.db"
    Store.open(target).close()
    (tmp_path / "chats.db").symlink_to(target)
    store = Store.open(tmp_path / "chats.db")
    make_chat(store, texts=["hi"])
    store.close()
    assert connect(target).table("messages").count == 1


def test_the_default_is_the_users_history(home: Path):
    store = Store.open()
    assert store.path == home / "data" / "chats.db"
    store.close()


def test_two_that_start_together_migrate_one_after_the_other(database_path: Path):
    lock_file = paths.ensure_private_dir(paths.state_dir()) / "history.lock"
    opened: list[Path] = []

    def open_it() -> None:
        db, path = open_database(database_path)
        db.close()
        opened.append(path)

    threads = [threading.Thread(target=open_it) for _ in range(3)]
    with exclusive(lock_file):
        for thread in threads:
            thread.start()
        assert opened == []
    for thread in threads:
        thread.join(10)
    assert opened == [database_path] * 3


def test_a_failed_start_leaves_no_sign_of_life(database_path: Path):
    db, path = open_database(database_path)
    db.execute("DROP TABLE runs")
    with pytest.raises(StoreError):
        Store(db, path)
    assert list((paths.state_dir() / "runs").iterdir()) == []
