"""What SQLite and the file system report, as one sentence a user can act on."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localpaged import paths
from localpaged.errors import DatabaseDamaged, DiskFull, StoreError

BACKUPS = "backups"
LEAST_ROOM_BYTES = 64 << 10
"""SQLite makes its side files in steps of up to so many bytes."""
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")
_READ_ONLY = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_NO_LOCKS = (
    *("SQLITE_IOERR_LOCK", "SQLITE_IOERR_UNLOCK", "SQLITE_IOERR_RDLOCK"),
    *("SQLITE_IOERR_CHECKRESERVEDLOCK", "SQLITE_IOERR_SHMLOCK"),
)
_NO_LOCK_ERRNOS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)
_OUR_BUGS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    sqlite3.NotSupportedError,
)

log = logging.getLogger(__name__)


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
    if name in _NO_LOCKS:
        return no_locks(path)
    if name.startswith("SQLITE_IOERR"):
        if _has_no_room(path):
            # a side file that could not grow is no disk that fails
            return disk_full(path)
        return StoreError(
            f"The disk that holds the history {path} fails: {error}.",
            hint="Check the disk, and that the folder is still there.",
        )
    log.error("the history %s cannot be used", path, exc_info=error)
    return StoreError(f"The history {path} cannot be used: {error}.", hint=paths.log_hint())


def is_worth_retrying(error: Exception) -> bool:
    """Whether the same write may succeed later: the disk, not the row, is the trouble."""
    return isinstance(error, sqlite3.Error) and not isinstance(error, _OUR_BUGS)


def no_locks(path: Path) -> StoreError:
    """A network disk, mostly: two programs could not keep out of each other's way."""
    return StoreError(
        f"The history {path} cannot be used: its disk has no locks between programs.",
        hint="Put it on a local disk with LOCALPAGED_HOME, or have the network disk lock files.",
    )


def _has_no_room(path: Path) -> bool:
    try:
        disk = os.statvfs(path.resolve().parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < LEAST_ROOM_BYTES


def damaged(path: Path, what: str) -> DatabaseDamaged:
    """The file is not a database that we can read."""
    folder = path.parent / BACKUPS
    hint = "Move it away; the next start begins a new history."
    if any(folder.glob("*.db")):
        hint = f"Move it away, and put a copy from {folder} in its place."
    return DatabaseDamaged(f"The history {path} is not a readable database: {what}.", hint=hint)


def disk_full(path: Path) -> DiskFull:
    """A write did not fit."""
    return DiskFull(f"The disk that holds {path} is full.", hint="Free some space on it.")


def read_only(path: Path, culprit: Path | None = None) -> StoreError:
    """The file or its folder must not be written, or what it needs at `culprit`."""
    if culprit is None or culprit in (path, path.parent):
        return StoreError(
            f"The history {path} cannot be written.",
            hint="Give yourself write access to the file and its folder, or set LOCALPAGED_HOME.",
        )
    return StoreError(
        f"The history {path} cannot be written: no write access to {culprit}.",
        hint=f"Give yourself write access to {culprit}, or set LOCALPAGED_HOME.",
    )


def no_file(path: Path) -> StoreError:
    """There is something else in the file's place."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(path.stat().st_mode), "no ordinary file")
    return StoreError(
        f"The history {path} is {kind}, and has to be a file.",
        hint="Move it away; the next start begins a new history.",
    )


def _file_error(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path)
    if error.errno in _NO_LOCK_ERRNOS:
        return no_locks(path)
    culprit = _culprit(error)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return read_only(path, culprit)
    if error.errno in (errno.ENOTDIR, errno.EEXIST) and culprit is not None:
        return StoreError(
            f"The history {path} cannot be opened: {culprit} is a file, and has to be a folder.",
            hint=f"Move {culprit} away, or set LOCALPAGED_HOME.",
        )
    what = error.strerror or str(error)
    at = f"{culprit}: " if culprit not in (None, path) else ""
    return StoreError(f"The history {path} cannot be opened: {at}{what}.", hint="Check the path.")


def _culprit(error: OSError) -> Path | None:
    """What an error is about; of a path that leads through a file, that file."""
    if not isinstance(error.filename, str | os.PathLike):
        return None
    culprit = Path(error.filename)
    while not paths.is_there(culprit) and culprit != culprit.parent:
        culprit = culprit.parent
    return culprit
