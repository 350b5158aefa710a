"""File locks: one migration at a time, and a sign of life for every running process.

A lock belongs to the open file and ends with its process, however that ends; a process id would be
given to somebody else after a while.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localpaged import paths


@contextmanager
def exclusive(lock_file: Path) -> Iterator[None]:
    """Hold the lock while the block runs; wait for it as long as it takes."""
    descriptor = _open(lock_file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_exclusive(lock_file: Path) -> int | None:
    """Take the lock for as long as the returned descriptor is open; None when another has it."""
    descriptor = _open(lock_file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


class RunLock:
    """Held as long as this process uses the history. Any thread.

    The file is named after the run, is made here and is locked before anyone can know the name.
    """

    def __init__(self, run_id: str) -> None:
        folder = paths.ensure_private_dir(paths.state_dir() / "runs")
        self.path = (folder / f"{run_id}.lock").absolute()
        self._descriptor: int | None = _open(self.path)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Remove the file and give the lock back. A second call does nothing."""
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


def is_held(lock_file: Path) -> bool:
    """Whether the process that made `lock_file` is still alive."""
    try:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who look at the same time do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _open(lock_file: Path) -> int:
    return os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, paths.PRIVATE_FILE_MODE)
