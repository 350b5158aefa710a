"""What SQLite and the file system say becomes one sentence and a hint."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from localpaged.errors import DatabaseDamaged, DiskFull, StoreError
from localpaged.store.failures import explained, is_worth_retrying, store_error

PATH = Path("/data/chats.db")


def sqlite_error(name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("what sqlite says")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (sqlite_error("SQLITE_FULL"), DiskFull, "is full"),
        (sqlite_error("SQLITE_CORRUPT_INDEX"), DatabaseDamaged, "not a readable database"),
        (sqlite_error("SQLITE_NOTADB"), DatabaseDamaged, "not a readable database"),
        (sqlite_error("SQLITE_READONLY_DBMOVED"), StoreError, "cannot be written"),
        (sqlite_error("SQLITE_CANTOPEN"), StoreError, "cannot be written"),
        (sqlite_error("SQLITE_BUSY"), StoreError, "locked by another program"),
        (sqlite_error("SQLITE_IOERR_READ"), StoreError, "what sqlite says"),
        (sqlite3.OperationalError("no name"), StoreError, "no name"),
        (OSError(errno.ENOSPC, "No space"), DiskFull, "is full"),
        (OSError(errno.EROFS, "Read-only"), StoreError, "cannot be written"),
        (OSError(errno.ENOLCK, "No locks available"), StoreError, "no locks between programs"),
        (OSError(errno.EOPNOTSUPP, "Not supported"), StoreError, "no locks between programs"),
        (sqlite_error("SQLITE_IOERR_LOCK"), StoreError, "no locks between programs"),
        (OSError("bare"), StoreError, "bare"),
    ],
)
def test_every_failure_names_the_file_and_what_to_do(
    error: sqlite3.Error | OSError, kind: type[StoreError], sentence: str
):
    failure = store_error(error, PATH)
    assert type(failure) is kind
    assert sentence in failure.message
    assert str(PATH) in failure.message
    assert failure.hint


def test_an_explained_block_keeps_the_cause():
    cause = sqlite_error("SQLITE_FULL")
    with pytest.raises(DiskFull) as caught, explained(PATH):
        raise cause
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize(
    ("error", "is_worth"),
    [
        (sqlite3.OperationalError("disk"), True),
        (sqlite3.DatabaseError("malformed"), True),
        (sqlite3.IntegrityError("row"), False),
        (sqlite3.ProgrammingError("statement"), False),
        (ValueError("value"), False),
    ],
)
def test_only_what_the_disk_refuses_is_tried_again(error: Exception, is_worth: bool):
    assert is_worth_retrying(error) is is_worth


@pytest.mark.parametrize(("free_blocks", "kind"), [(0, DiskFull), (10_000, StoreError)])
def test_an_input_output_error_on_a_disk_without_room_is_a_full_disk(
    tmp_path, monkeypatch, free_blocks, kind
):
    # what SQLite says when the file beside the history cannot grow
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    real = os.statvfs(tmp_path)
    fields = [*real][:10]
    fields[4] = free_blocks
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(fields))
    found = store_error(error, tmp_path / "chats.db")
    assert type(found) is kind
    assert ("is full" in found.message) is (kind is DiskFull)
