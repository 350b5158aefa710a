"""Folders for work in progress that vanish with the process that made them, even if it is killed.

Each folder holds a lock file that its owner keeps locked. The kernel frees the lock when the
owner dies, however it dies; whoever works next removes the folders whose lock is free. A child
process that works in the folder inherits the lock, so that it counts as an owner too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localpaged.paths import PRIVATE_FILE_MODE

PREFIX = ".pull-"

_LOCK = "lock"
_MAKING_S = 3_600.0  # a folder that is this old and still has no lock was never finished


@dataclass(frozen=True, slots=True)
class Scratch:
    """A scratch folder and the descriptor of its lock, for `pass_fds` of child processes."""

    folder: Path
    lock_descriptor: int


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Scratch]:
    """Yield a new folder in `parent`, remove it afterwards; first remove abandoned ones."""
    remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(folder / "lock.new", flags, PRIVATE_FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # the lock gets its name only when it is held, so that nobody finds it free
        (folder / "lock.new").rename(folder / _LOCK)
        yield Scratch(folder, descriptor)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_abandoned(parent: Path) -> None:
    """Remove the scratch folders in `parent` whose owner is gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return folder.exists() and time.time() - folder.stat().st_mtime > _MAKING_S
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
