"""Writes files so that a name either holds all of its content or does not exist."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from localpaged.paths import PRIVATE_FILE_MODE


def write_atomically(
    path: Path, content: bytes, *, mode: int = PRIVATE_FILE_MODE, is_synced: bool = True
) -> None:
    """Replace `path` by `content`; raises OSError and leaves the old content when it cannot.

    `is_synced` False leaves it to the system when the file reaches the disk.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        if is_synced:
            put_in_place(temporary, path)
        else:
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def put_in_place(complete: Path, path: Path) -> None:
    """Give the complete, synced file its final name, durably."""
    complete.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
