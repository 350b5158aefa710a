"""Keeps the KV files of all models within a budget: what was used least recently goes first."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localpaged.kv_files.folder import TEMPORARY
from localpaged.kv_files.names import SUFFIX

ABANDONED_S = 600.0
"""A file that is so old and still not whole belongs to nobody."""


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    num_bytes: int
    used_ns: int


def sweep(root: Path, *, budget_bytes: int) -> int:
    """Delete files until the rest fits; return how many. Raises OSError.

    Other programs may sweep at the same time: what is gone already counts as deleted.
    """
    files = sorted(_files(root), key=lambda file: file.used_ns)
    total = sum(file.num_bytes for file in files)
    num_deleted = 0
    for file in files:
        if total <= budget_bytes:
            break
        file.path.unlink(missing_ok=True)
        total -= file.num_bytes
        num_deleted += 1
    return num_deleted


def used_bytes(root: Path) -> int:
    """Return what the files of all models take."""
    return sum(file.num_bytes for file in _files(root))


def _files(root: Path) -> Iterator[_File]:
    """Every KV file; what was abandoned half written is removed on the way."""
    for folder in _folders(root):
        for entry in os.scandir(folder):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            if entry.name.endswith(SUFFIX):
                yield _File(Path(entry.path), status.st_size, status.st_mtime_ns)
            elif entry.name.endswith(TEMPORARY) and time.time() - status.st_mtime > ABANDONED_S:
                Path(entry.path).unlink(missing_ok=True)


def _folders(root: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(root) if entry.is_dir()]
    except FileNotFoundError:
        return []
