"""What SQLite and the file system report, as one sentence a user can act on."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localpaged.errors import DatabaseDamaged, DiskFull, StoreError

_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")
_READ_ONLY = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_OUR_BUGS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    sqlite3.NotSupportedError,
)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise what goes wrong inside as a StoreError about the database at `path`."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise store_error(error, path) from error


def store_error(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """Say what `error` means for the history at `path`."""
    if isinstance(error, OSError):
        return _file_error(error, path)
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_FULL"):
        return disk_full(path)
    if name.startswith(_DAMAGED):
        return damaged(path, str(error))
    if name.startswith(_READ_ONLY):
        return read_only(path)
    if name.startswith(_LOCKED):
        return StoreError(
            f"The history {path} is locked by another program.",
            hint="Close the program that holds it, or wait until it is done.",
        )
    return StoreError(f"The history {path} cannot be used: {error}.", hint="See the log file.")


def is_worth_retrying(error: Exception) -> bool:
    """Whether the same write may succeed later: the disk, not the row, is the trouble."""
    return isinstance(error, sqlite3.Error) and not isinstance(error, _OUR_BUGS)


def damaged(path: Path, what: str) -> DatabaseDamaged:
    """The file is not a database that we can read."""
    return DatabaseDamaged(
        f"The history {path} is not a readable database: {what}.",
        hint=f"Move it away, and put a copy from {path.parent / 'backups'} in its place.",
    )


def disk_full(path: Path) -> DiskFull:
    """A write did not fit."""
    return DiskFull(f"The disk that holds {path} is full.", hint="Free some space on it.")


def read_only(path: Path) -> StoreError:
    """The file or its folder must not be written."""
    return StoreError(
        f"The history {path} cannot be written.",
        hint="Give yourself write access to the file and its folder, or set LOCALPAGED_HOME.",
    )


def _file_error(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return read_only(path)
    what = error.strerror or str(error)
    return StoreError(f"The history {path} cannot be opened: {what}.", hint="Check the path.")
