"""A history that cannot be used ends `ask` with exit code 6, one sentence, and is left alone."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.store.store import Store
from testkit.builders import make_limited_store
from testkit.commands import Done, assert_refused, call, run

NOBODY = 65_534


@pytest.fixture
def database(listed_home):
    """The file of a history with one chat."""
    Store.open().close()
    return paths.database_file()


def damage(database):
    database.write_bytes(b"SQLite format 3\0" + b"\xff" * 8_000)


def make_newer(database):
    with sqlite3.connect(database) as db:
        db.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('localpaged', 'm999_later', '2100-01-01')"
        )
    db.close()


def make_foreign(database):
    database.unlink()
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE bookmarks (id)")
    db.close()


@pytest.mark.parametrize(
    ("spoil", "part"),
    [
        (damage, "not a readable database"),
        (make_newer, "newer localpaged"),
        (make_foreign, "not one of localpaged"),
    ],
)
def test_a_database_that_is_not_ours_to_use_is_told_and_not_touched(database, spoil, part):
    spoil(database)
    before = database.read_bytes()
    assert_refused(call("ask", "Hi"), 6, str(paths.database_file()), part)
    assert database.read_bytes() == before


def test_a_folder_in_the_place_of_the_database_is_told(listed_home):
    paths.database_file().mkdir()
    assert_refused(call("ask", "Hi"), 6, str(paths.database_file()))
    assert not list(paths.database_file().iterdir())


def test_a_read_only_home_is_told(monkeypatch):
    folder = Path(tempfile.mkdtemp())
    try:
        monkeypatch.setenv(paths.HOME_VARIABLE, str(folder / "home"))
        folder.chmod(0o555)
        assert_refused(
            call_without_rights("ask", "--model", str(folder), "Hi"),
            6,
            str(paths.database_file()),
            "cannot be written",
        )
        assert not list(folder.iterdir())
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_home_that_may_not_be_looked_into_is_told(monkeypatch):
    folder = Path(tempfile.mkdtemp())
    try:
        monkeypatch.setenv(paths.HOME_VARIABLE, str(folder / "home"))
        folder.chmod(0)
        for command in ("list", "search", "show"):
            arguments = () if command == "list" else ("x",)
            refused = call_without_rights("history", command, *arguments)
            assert_refused(refused, 6, str(paths.database_file()), "cannot be")
        done = call_without_rights("paths")
        assert (done.code, done.out.count("not there yet")) == (0, 11)
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_home_with_a_name_that_no_folder_can_have_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv(paths.HOME_VARIABLE, str(tmp_path / ("x" * 300)))
    assert_refused(call("history"), 6, str(paths.database_file()), "name too long")
    done = call("paths")
    assert (done.code, done.out.count("not there yet")) == (0, 11)


def call_without_rights(*arguments: str) -> Done:
    """To root nothing is forbidden."""
    if os.geteuid() != 0:
        return call(*arguments)
    os.seteuid(NOBODY)
    try:
        return call(*arguments)
    finally:
        os.seteuid(0)


def full_disk() -> Store:
    """Open the user's history on a disk that has no room left."""
    store, _ = make_limited_store(paths.database_file(), spare_pages=0)
    return store


def test_a_disk_that_is_full_before_the_answer_begins_is_told_at_once(home, answer_with):
    runs = answer_with(["never said"], open_store=full_disk)
    assert_refused(call("ask", "Hi " * 5_000), 6, str(paths.database_file()), "is full")
    assert not runs.requests


def test_a_disk_that_fills_up_during_the_answer_costs_no_word_of_it(home, answer_with):
    def filling_disk():
        store, _ = make_limited_store(paths.database_file(), spare_pages=8)
        return store

    pieces = ["word " * 200] * 500
    answer_with(pieces, open_store=filling_disk)
    done = call("ask", "--no-stop-loops", "Hi")
    assert done.code == 6
    assert done.out == "".join(pieces) + "\n"
    assert "is full" in done.err


def test_a_disk_that_has_room_again_saves_everything(home, answer_with):
    opened = []

    def filling_disk():
        opened.append(make_limited_store(paths.database_file(), spare_pages=8))
        return opened[0][0]

    def make_room(events):
        if opened and opened[0][0].writer.failure is not None:
            opened[0][1]()

    pieces = ["word " * 200] * 1_500
    answer_with(pieces, open_store=filling_disk, listener=make_room)
    done = call("ask", "--no-stop-loops", "Hi")
    assert (done.code, done.err) == (0, "")
    store = Store.open()
    assert store.conversation(store.chats()[0].id).messages[-1].text == "".join(pieces)
    assert store.close() is None


def test_a_home_of_nobody_is_wrong_use(monkeypatch):
    monkeypatch.setenv(paths.HOME_VARIABLE, "~nobody-has-this-name/localpaged")
    done = run("models", "list")
    assert done.code == 2
    assert "LOCALPAGED_HOME" in done.err
