"""What is told when a disk does not take what a model needs: which place, why, and how much."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from localpaged.errors import ModelError
from localpaged.plain_text import visible

_FULL = (errno.ENOSPC, errno.EDQUOT)
_MAKE_ROOM = "Make room there, or set LOCALPAGED_HOME to another place."


def check_room(folder: Path, *, needed_bytes: int) -> None:
    """Raise ModelError when the disk of `folder` has less room than a model needs."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise ModelError(
            f"{visible(str(folder))} has {free_bytes / 1e6:,.0f} MB of room;"
            f" {needed_bytes / 1e6:,.0f} MB are needed.",
            hint=_MAKE_ROOM,
        )


def not_written(path: Path, error: OSError) -> ModelError:
    """Return the error for a file that could not be written."""
    is_full = error.errno in _FULL
    return ModelError(
        f"{visible(str(path))} cannot be written: {error.strerror or error}.",
        hint=_MAKE_ROOM if is_full else "Set LOCALPAGED_HOME to a place where you may write.",
    )
