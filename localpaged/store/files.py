"""The database's files belong to their owner alone, whatever the umask and whoever made them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from localpaged import paths
from localpaged.errors import StoreError
from localpaged.store.failures import no_file, read_only

SIDE_FILES = ("-wal", "-shm", "-journal")


def prepare_files(path: Path) -> Path:
    """Make the database's folder and an empty file, or repair those that are too open.

    Returns the file that is really meant, links followed: SQLite keeps its side files there, and
    gives them the mode of the database, so this covers later ones too. Raises StoreError for a
    link to someone else's file, for what is no file, and when writing is not allowed.
    """
    folder = path.parent
    # A folder that the user chose may be shared with others, and is left as it is.
    if not folder.exists() or folder == paths.data_dir():
        paths.ensure_private_dir(folder)
    _refuse_foreign_link(path)
    if path.exists() and not path.is_file():
        raise no_file(path)
    path = path.resolve()
    create_private(path)
    if not _may_write(path) or not _may_write(path.parent):
        raise read_only(path)
    for suffix in ("", *SIDE_FILES):
        _repair(path.with_name(path.name + suffix))
    return path


def create_private(path: Path) -> None:
    """Make an empty file that only its owner reads; an existing one is left as it is."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, paths.PRIVATE_FILE_MODE)
    except FileExistsError:
        return
    os.close(descriptor)


def _refuse_foreign_link(path: Path) -> None:
    if not path.is_symlink():
        return
    if not path.exists():
        raise StoreError(
            f"The history {path} is a link to a file that is not there.",
            hint="Mount the disk it points to, or remove the link.",
        )
    if path.stat().st_uid != os.geteuid():
        raise StoreError(
            f"The history {path} is a link to a file of another user.",
            hint="Remove the link; it is not followed.",
        )


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=True)


def _repair(path: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    if stat.S_IMODE(status.st_mode) & 0o077 and status.st_uid == os.geteuid():
        path.chmod(paths.PRIVATE_FILE_MODE)
