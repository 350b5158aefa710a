"""Looks a history over without changing a byte of it, whoever has it open.

No file is made beside it. What SQLite refreshes is its index of a log that is there, as it does
for everybody who reads.
"""

from __future__ import annotations

import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database

from localpaged.errors import DatabaseDamaged
from localpaged.store.chat_count import num_chats
from localpaged.store.failures import damaged, explained
from localpaged.store.migrations import APPLICATION_ID, migrations

BUSY_S = 0.3
MIGRATIONS_TABLE = "_sqlite_migrations"
_HEADER_BYTES, _VERSION_AT = 20, 18
_LOGGED = b"\x02\x02"
"""In a database's header: it is read and written with a write-ahead log."""
_STEPS_BETWEEN_LOOKS = 10_000
"""Of SQLite's machine: some tenths of a millisecond."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found. `is_whole` is None when the check was not finished in its time.

    `pending` and `unknown` are names of schema steps: still to be done, and made by a newer
    localpaged. `log_bytes` is what waits in the write-ahead log.
    """

    database_bytes: int
    log_bytes: int
    schema: str
    pending: tuple[str, ...]
    unknown: tuple[str, ...]
    is_whole: bool | None
    chats: int


def check_up(path: Path, *, limit_s: float) -> Checkup:
    """Check a history that is there. Raises StoreError for one that cannot be read or is damaged.

    `limit_s` is how long pages are compared.
    """
    how = _how(path)
    try:
        return _looked(path, how, limit_s)
    except DatabaseDamaged:
        if _how(path) == how:
            raise
    # somebody has begun to write meanwhile, and pages were of two times
    return _looked(path, _how(path), limit_s)


def log_of(path: Path) -> Path:
    """Return where SQLite keeps what was written last, while it is open."""
    return path.with_name(path.name + "-wal")


def _how(path: Path) -> str:
    """How to open a history so that SQLite makes no files of its own beside it."""
    with explained(path), path.open("rb") as file:
        is_logged = file.read(_HEADER_BYTES)[_VERSION_AT:] == _LOGGED
        # Without a log nobody has it open; without log mode there are locks instead of files.
        log = log_of(path)
        has_log = log.exists() and log.stat().st_size > 0
    return "immutable=1" if is_logged and not has_log else "mode=ro"


def _looked(path: Path, how: str, limit_s: float) -> Checkup:
    with explained(path):
        address = f"{path.absolute().as_uri()}?{how}"
        db = sqlite3.connect(address, uri=True, timeout=BUSY_S)
        try:
            return _checked(db, path, limit_s)
        finally:
            db.close()


def _checked(db: sqlite3.Connection, path: Path, limit_s: float) -> Checkup:
    names = {str(row[0]) for row in db.execute("SELECT name FROM sqlite_master")}
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    if names and application_id != APPLICATION_ID:
        raise DatabaseDamaged(
            f"{path} is a database, but not one of localpaged.",
            hint="Name another file, or move this one away.",
        )
    applied = _applied(db) if MIGRATIONS_TABLE in names else []
    # in an empty database every step is pending: that is the list of all we know
    known = [str(step.name) for step in migrations.pending(Database(memory=True))]
    log = log_of(path)
    chats = num_chats(db) if "chats" in names else 0
    return Checkup(
        database_bytes=path.stat().st_size,
        log_bytes=log.stat().st_size if log.exists() else 0,
        schema=applied[-1] if applied else "",
        pending=tuple(name for name in known if name not in applied),
        unknown=tuple(name for name in applied if name not in known),
        is_whole=_is_whole(db, path, limit_s),
        chats=chats,
    )


def _applied(db: sqlite3.Connection) -> list[str]:
    rows = db.execute(
        f"SELECT name FROM {MIGRATIONS_TABLE} WHERE migration_set = ? ORDER BY name",
        [migrations.name],
    )
    return [str(row[0]) for row in rows]


def _is_whole(db: sqlite3.Connection, path: Path, limit_s: float) -> bool | None:
    by_s = time.monotonic() + limit_s
    db.set_progress_handler(lambda: time.monotonic() > by_s, _STEPS_BETWEEN_LOOKS)
    try:
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname == "SQLITE_INTERRUPT":
            return None
        raise
    finally:
        db.set_progress_handler(None, 0)
    if found != "ok":
        raise damaged(path, str(found))
    return True


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has files locked, by its id."""

    pid: int
    is_writing: bool


def holders(files: list[Path], *, table: Path = Path("/proc/locks")) -> list[Holder]:
    """Return which processes hold locks on files, as the kernel lists them. Raises OSError."""
    wanted = set()
    for file in files:
        try:
            status = file.stat()
        except FileNotFoundError:
            continue
        wanted.add((os.major(status.st_dev), os.minor(status.st_dev), status.st_ino))
    found: dict[int, bool] = {}
    for line in table.read_text().splitlines():
        fields = line.split()
        # "1: POSIX ADVISORY WRITE pid major:minor:inode start end", and "->" for who only waits
        if len(fields) < 6 or fields[1] == "->" or not fields[4].isdecimal():
            continue
        major, minor, inode = fields[5].split(":")
        if (int(major, 16), int(minor, 16), int(inode)) in wanted:
            pid = int(fields[4])
            found[pid] = found.get(pid, False) or fields[3] == "WRITE"
    return [Holder(pid, is_writing) for pid, is_writing in sorted(found.items())]
