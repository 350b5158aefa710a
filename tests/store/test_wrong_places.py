"""What is in the way is named, not the history; hints speak of what is there."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.errors import DatabaseDamaged, StoreError
from localpaged.store.failures import store_error
from localpaged.store.store import Store
from localpaged.store.writes import Write
from testkit.builders import make_chat


def refused(path: Path) -> StoreError:
    with pytest.raises(StoreError) as caught:
        Store.open(path)
    return caught.value


@pytest.mark.parametrize("part", ["state", "data", "."])
def test_a_file_where_a_folder_has_to_be_is_named(home: Path, part: str):
    home.rmdir()
    culprit = (home / part).resolve()
    culprit.parent.mkdir(exist_ok=True)
    culprit.write_text("mine")
    culprit.chmod(0o644)
    error = refused(paths.database_file())
    assert f"{culprit} is a file" in error.message
    assert str(culprit) in error.hint
    assert culprit.read_text() == "mine"
    assert stat.S_IMODE(culprit.stat().st_mode) == 0o644


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_device(path: Path) -> None:
    path.symlink_to("/dev/null")


@pytest.mark.parametrize(
    ("make", "what"),
    [(make_fifo, "is a pipe"), (make_folder, "is a folder"), (make_device, "device")],
)
def test_what_is_no_file_is_named_for_what_it_is(database_path: Path, make, what: str):
    database_path.parent.mkdir(parents=True)
    make(database_path)
    error = refused(database_path)
    assert str(database_path) in error.message
    assert what in error.message
    assert "write access" not in error.hint
    assert "Move it away" in error.hint


def test_backups_are_spoken_of_only_where_there_are_some(database_path: Path):
    database_path.parent.mkdir(parents=True)
    database_path.write_bytes(b"<html>404</html>" * 100)
    error = refused(database_path)
    assert type(error) is DatabaseDamaged
    assert "backups" not in error.hint
    assert "new" in error.hint
    folder = database_path.parent / "backups"
    folder.mkdir()
    (folder / "chats-20260101-000000-before-m002.db").touch()
    assert str(folder) in refused(database_path).hint


def test_an_error_that_nobody_expects_is_logged_and_the_log_named(caplog):
    error = store_error(sqlite3.OperationalError("what sqlite says"), Path("/data/chats.db"))
    assert str(paths.log_file()) in error.hint
    assert "what sqlite says" in caplog.text


def test_what_is_refused_for_good_names_the_log(database_path: Path):
    class Wrong(Write):
        def apply(self, db: object, *, run_id: str) -> None:
            raise ValueError("wrong row")

    store = Store.open(database_path)
    make_chat(store)
    failure = store.submit(Wrong()).exception(10)
    assert isinstance(failure, StoreError)
    assert str(paths.log_file()) in failure.hint
    store.close()
