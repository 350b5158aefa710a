"""Where running programs listen: a Unix socket each, in a folder that is the owner's alone.

A socket gets its name only when it listens, so one that refuses was left by a program that died,
and whoever meets it removes it.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from localpaged import paths

SUFFIX = ".sock"
_UNNAMED = ".tmp"
_UNNAMED_KEPT_S = 60.0
_MAX_ADDRESS_BYTES = 107
"""What the kernel takes for the path of a socket."""
_BACKLOG = 32
_RETRY_S = 0.01


def listen(pid: int) -> tuple[socket.socket, Path]:
    """Return a socket that listens for process `pid`, and its path. Raises OSError."""
    folder = _private_folder()
    _remove_unnamed(folder)
    unnamed = folder / f".{pid}-{secrets.token_hex(4)}{_UNNAMED}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(unnamed) as address:
            listener.bind(address)
        unnamed.chmod(paths.PRIVATE_FILE_MODE)
        listener.listen(_BACKLOG)
        path = _free_name(folder, pid)
        unnamed.rename(path)
    except BaseException:
        listener.close()
        unnamed.unlink(missing_ok=True)
        raise
    return listener, path


def connect(path: Path, *, timeout_s: float) -> socket.socket:
    """Return a connection to a running program.

    Raises OSError; ConnectionRefusedError or FileNotFoundError for one that is gone.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with _address(path) as address:
            _connect(connection, address, by_s=time.monotonic() + timeout_s)
    except BaseException:
        connection.close()
        raise
    return connection


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a socket from another one of the same name; None if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def living(pid: int | None = None) -> Sequence[Path]:
    """Return the sockets of running programs, removing those of dead ones. Raises OSError.

    With a `pid` those of that process alone; the others are not touched.
    """
    folder = paths.runtime_dir()
    if not folder.is_dir():
        return []
    found = sorted(folder.glob(f"*{SUFFIX}"))
    return [path for path in found if _is_of(path, pid) and is_living(path)]


def is_living(path: Path, *, timeout_s: float = 1.0) -> bool:
    """Whether somebody listens there; what a dead program left is removed."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
        connect(path, timeout_s=timeout_s).close()
    except ConnectionRefusedError:
        with suppress(OSError):
            path.unlink()
        return False
    except FileNotFoundError:
        return False
    except OSError:
        # it has so much to do that it takes no connection: alive
        return True
    return True


def _is_of(path: Path, pid: int | None) -> bool:
    return pid is None or path.stem.partition("-")[0] == str(pid)


def _connect(connection: socket.socket, address: str, *, by_s: float) -> None:
    while True:
        try:
            connection.connect(address)
            return
        except BlockingIOError:
            # too many wait to be taken, and the kernel queues nobody with a time limit
            if time.monotonic() > by_s:
                raise
            time.sleep(_RETRY_S)


def _private_folder() -> Path:
    folder = paths.ensure_private_dir(paths.runtime_dir())
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder


def _free_name(folder: Path, pid: int) -> Path:
    path, number = folder / f"{pid}{SUFFIX}", 1
    # a process of another container may have the same number, this process another engine
    while path.exists() and is_living(path):
        number += 1
        path = folder / f"{pid}-{number}{SUFFIX}"
    return path


def _remove_unnamed(folder: Path) -> None:
    for path in folder.glob(f".*{_UNNAMED}"):
        with suppress(OSError):
            if path.lstat().st_mtime < time.time() - _UNNAMED_KEPT_S:
                path.unlink()


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """What the kernel is told: a path that is too long goes through its folder's descriptor."""
    if len(os.fsencode(path)) <= _MAX_ADDRESS_BYTES:
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)
