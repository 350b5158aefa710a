"""The history is readable by its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from localpaged.store.store import Store
from testkit.builders import make_chat


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda umask: f"umask-{umask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def assert_all_private(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.usefixtures("umask")
def test_everything_new_is_private_side_files_and_locks_included(home: Path, database_path: Path):
    store = Store.open(database_path)
    make_chat(store, texts=["secret"])
    names = {path.name for path in database_path.parent.iterdir()}
    assert names == {"chats.db", "chats.db-wal", "chats.db-shm"}
    assert_all_private(home)
    store.close()


@pytest.mark.usefixtures("umask")
def test_what_was_left_open_is_repaired(home: Path, database_path: Path):
    first = Store.open(database_path)
    make_chat(first, texts=["secret"])
    database_path.parent.chmod(0o755)
    for path in database_path.parent.iterdir():
        path.chmod(0o644)
    second = Store.open(database_path)
    assert_all_private(home)
    second.close()
    first.close()


def test_a_folder_that_others_share_is_left_as_it_is(tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    Store.open(shared / "chats.db").close()
    assert mode(shared) == 0o755
    assert mode(shared / "chats.db") == 0o600
