"""Copies of the database, made before its schema changes."""

from __future__ import annotations

import time
from pathlib import Path

from sqlite_utils import Database

from localpaged import paths
from localpaged.store.failures import BACKUPS
from localpaged.store.files import create_private

KEPT_BACKUPS = 3


def backup(db: Database, path: Path, *, label: str) -> Path:
    """Copy the whole database into `backups` beside it, keep the latest three; return the copy.

    Raises sqlite3.Error or OSError when there is no room; then nothing is left behind.
    """
    folder = paths.ensure_private_dir(path.parent / BACKUPS)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    copy = _unused(folder, f"{path.stem}-{stamp}-{label}")
    # VACUUM INTO accepts an empty file, and so the copy is private from its first byte.
    create_private(copy)
    try:
        db.execute("VACUUM INTO ?", [str(copy)])
    except BaseException:
        copy.unlink()
        raise
    by_age = sorted(folder.glob(f"{path.stem}-*.db"), key=lambda copy: copy.stat().st_mtime_ns)
    for old in by_age[:-KEPT_BACKUPS]:
        old.unlink()
    return copy


def _unused(folder: Path, name: str) -> Path:
    copy = folder / f"{name}.db"
    number = 1
    while copy.exists():
        number += 1
        copy = folder / f"{name}-{number}.db"
    return copy
