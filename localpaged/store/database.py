"""Opening the database: checks, journal, migrations; and connections to it.

Durability. The writing connection runs with `synchronous=FULL`: a commit returns when the
write-ahead log is on the disk. With NORMAL a commit in WAL mode survives `kill -9`, because the
pages are with the kernel, but a power cut may take the latest commits back. A user's message is
promised to be durable before the model runs; and with one commit a change of state and two
checkpoints a second, that first message is the only one whose fsync anybody waits for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlite_utils import Database

from localpaged import paths
from localpaged.errors import DatabaseDamaged, DatabaseTooNew
from localpaged.store.backup import backup
from localpaged.store.failures import explained
from localpaged.store.files import prepare_files
from localpaged.store.locks import exclusive
from localpaged.store.migrations import APPLICATION_ID, migrations

BUSY_TIMEOUT_MS = 5_000


def open_database(path: Path) -> tuple[Database, Path]:
    """Make, check and migrate the database; return the writing connection and the real file.

    Raises StoreError, with what to do, when the file is damaged, foreign, too new, full or locked.
    """
    with explained(path):
        path = prepare_files(path)
        # Two programs that start together must not both migrate.
        with exclusive(paths.ensure_private_dir(paths.state_dir()) / "history.lock"):
            db = connect(path)
            try:
                _prepare(db, path)
            except BaseException:
                db.close()
                raise
        return db, path


def connect(path: Path, *, is_reader: bool = False, is_still: bool = False) -> Database:
    """Open a connection; a reader's refuses to write. The file must be there.

    `is_still`: nobody writes to it, so SQLite needs no files of its own beside it.
    """
    how = "immutable=1" if is_still else "mode=rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=BUSY_TIMEOUT_MS / 1_000,
        check_same_thread=False,
    )
    # One broken byte in a row must not make a whole chat unreadable.
    connection.text_factory = _decode
    db = Database(connection, execute_plugins=False)
    if is_reader:
        db.execute("PRAGMA query_only = ON")
    return db


def set_journal(db: Database) -> str:
    """Switch to WAL, or to DELETE where WAL is refused (network file systems); return the mode."""
    try:
        mode = _set_journal_mode(db, "WAL")
    except sqlite3.OperationalError:
        mode = ""
    return mode if mode == "wal" else _set_journal_mode(db, "DELETE")


@contextmanager
def transaction(db: Database) -> Iterator[None]:
    """Run the block in one transaction that takes the write lock at once.

    A deferred one that reads first would fail instead of waiting when another program writes.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.commit()
    except BaseException:
        db.rollback()
        raise


def _prepare(db: Database, path: Path) -> None:
    _check_is_ours(db, path)
    set_journal(db)
    applied = [migration.name for migration in migrations.applied(db)]
    # In an empty database every migration is pending: that is the list of all we know.
    known = {migration.name for migration in migrations.pending(Database(memory=True))}
    if unknown := [name for name in applied if name not in known]:
        raise DatabaseTooNew(
            f"The history {path} was written by a newer localpaged (it has {unknown[-1]}).",
            hint="Update localpaged, or use another history with LOCALPAGED_HOME.",
        )
    pending = migrations.pending(db)
    if pending:
        if applied:
            backup(db, path, label=f"before-{pending[0].name}")
        migrations.apply(db)
    # Not before: table changes of a migration must not cascade.
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA synchronous = FULL")


def _check_is_ours(db: Database, path: Path) -> None:
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    (num_objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if num_objects and application_id != APPLICATION_ID:
        raise DatabaseDamaged(
            f"{path} is a database, but not one of localpaged.",
            hint="Name another file, or move this one away.",
        )


def _set_journal_mode(db: Database, mode: str) -> str:
    (answer,) = db.execute(f"PRAGMA journal_mode = {mode}").fetchone()
    return str(answer)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
