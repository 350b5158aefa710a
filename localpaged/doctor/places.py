"""Facts of folders: permissions, room, files of KV, sockets of running programs."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from localpaged import paths
from localpaged.config import Settings
from localpaged.doctor.fact import Fact, note, problem
from localpaged.kv_files.folder import MIN_FREE_BYTES, TEMPORARY, kv_root
from localpaged.kv_files.names import SUFFIX as KV_SUFFIX
from localpaged.stats.sockets import SUFFIX as SOCKET_SUFFIX
from localpaged.stats.sockets import connect

LITTLE_ROOM_BYTES = 256 << 20
CONNECTING_S = 0.2


def folder_facts() -> Iterator[Fact]:
    """Tell of each folder whether it may be used, by whom, and how much room its disk has."""
    for name, folder in (
        ("data folder", paths.data_dir()),
        ("config folder", paths.config_dir()),
        ("state folder", paths.state_dir()),
        ("cache folder", paths.cache_dir()),
        ("runtime folder", paths.runtime_dir()),
    ):
        try:
            yield _folder(name, folder)
        except OSError as error:
            text = f"{folder} cannot be looked at: {error.strerror}"
            yield problem(name, text, "Give yourself access to it, or set LOCALPAGED_HOME.")


def room_facts() -> Iterator[Fact]:
    """Tell the room on the disks of what is kept. Raises OSError."""
    told: set[int] = set()
    for folder in (paths.data_dir(), paths.state_dir(), paths.cache_dir()):
        above = _nearest(folder)
        if above.stat().st_dev in told:
            continue
        told.add(above.stat().st_dev)
        usage = shutil.disk_usage(above)
        numbers = {"free_bytes": usage.free, "total_bytes": usage.total}
        text = f"{usage.free / 2**30:,.1f} GiB free of {usage.total / 2**30:,.1f} for {above}"
        if usage.free < LITTLE_ROOM_BYTES:
            yield problem("disk", text, "Make room: chats need some, models much.", **numbers)
        elif usage.free < MIN_FREE_BYTES:
            yield note("disk", text, "Make room: KV is not kept in files now.", **numbers)
        else:
            yield Fact("disk", text, numbers=numbers)


def kv_facts(settings: Settings) -> Iterator[Fact]:
    """Tell what the files of KV take, and of how much. Raises OSError."""
    root, budget = kv_root(), settings.kv_disk_bytes
    num_files, num_bytes, num_abandoned = _kv_files(root)
    numbers = {"path": str(root), "bytes": num_bytes, "files": num_files, "budget_bytes": budget}
    text = f"{num_bytes / 2**20:,.1f} MiB in {num_files:,} files, of up to {budget / 2**20:,.0f}"
    if not budget:
        text = f"{num_bytes / 2**20:,.1f} MiB; none are written: kv_disk is 0"
    if num_abandoned:
        text += f"; {num_abandoned} half written, which the next program clears away"
    yield Fact("KV files", f"{text} ({root})", numbers=numbers)


def weights_facts(settings: Settings) -> Iterator[Fact]:
    """Tell what kept weights take, and of how much. Raises OSError."""
    from localpaged.models.kept_weights import kept_files, weights_root

    root, budget = weights_root(), settings.weights_disk_bytes
    files = kept_files()
    num_bytes = sum(status.st_size for _, status in files)
    numbers = {
        "path": str(root), "bytes": num_bytes, "files": len(files), "budget_bytes": budget
    }  # fmt: skip
    text = f"{num_bytes / 2**20:,.1f} MiB in {len(files):,} files, of up to {budget / 2**20:,.0f}"
    if not budget:
        text = f"{num_bytes / 2**20:,.1f} MiB; none are written: weights_disk is 0"
    yield Fact("kept weights", f"{text} ({root})", numbers=numbers)


def socket_facts() -> Iterator[Fact]:
    """Tell which programs listen, and what dead ones left. Raises OSError."""
    folder = paths.runtime_dir()
    found = sorted(folder.glob(f"*{SOCKET_SUFFIX}")) if folder.is_dir() else []
    stale = [path for path in found if not _listens(path)]
    living = [path.stem for path in found if path not in stale]
    text = f"pid {', '.join(living)}" if living else "none"
    numbers = {"living": living, "stale": [path.name for path in stale]}
    if stale:
        names = ", ".join(path.name for path in stale)
        text += f"; {names} left behind in {folder}"
        yield note("programs", text, "`localpaged stats --once` clears them away.", **numbers)
    else:
        yield Fact("programs", text, numbers=numbers)


def _folder(name: str, folder: Path) -> Fact:
    above = _nearest(folder)
    is_there = above == folder
    mode = stat.S_IMODE(above.stat().st_mode)
    numbers = {"path": str(folder), "exists": is_there, "mode": f"{mode:04o}" if is_there else None}
    if not above.is_dir():
        text = f"{folder}: {above} is a file, and has to be a folder"
        return problem(name, text, f"Move {above} away, or set LOCALPAGED_HOME.", **numbers)
    if not os.access(above, os.W_OK | os.X_OK):
        text = f"{folder}: {above} cannot be written"
        return problem(name, text, "Give yourself write access, or set LOCALPAGED_HOME.", **numbers)
    if not is_there:
        return Fact(name, f"{folder} is made when it is needed", numbers=numbers)
    text = f"{folder}, {mode:04o}"
    if above.stat().st_uid != os.geteuid():
        return note(name, f"{text}, of another user", f"See that {folder} is yours.", **numbers)
    if mode & 0o077 and name != "config folder":
        return note(name, f"{text}: others may look", f"chmod 700 '{folder}'", **numbers)
    return Fact(name, text, numbers=numbers)


def _nearest(folder: Path) -> Path:
    """Return the folder, or what is there of the way to it. Raises OSError for what is closed."""
    for part in (folder, *folder.parents):
        try:
            part.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        return part
    return Path("/")


def _kv_files(root: Path) -> tuple[int, int, int]:
    """Return how many files, their bytes, and how many are not whole; nothing is cleared away."""
    num_files = num_bytes = num_abandoned = 0
    for folder in root.iterdir() if root.is_dir() else ():
        for path in folder.iterdir() if folder.is_dir() else ():
            try:
                size = path.lstat().st_size
            except FileNotFoundError:
                continue  # a program that runs has deleted it
            num_abandoned += path.name.endswith(TEMPORARY)
            if path.name.endswith(KV_SUFFIX):
                num_files, num_bytes = num_files + 1, num_bytes + size
    return num_files, num_bytes, num_abandoned


def _listens(path: Path) -> bool:
    """Whether somebody does; unlike `sockets.is_living`, nothing is removed."""
    try:
        connect(path, timeout_s=CONNECTING_S).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except OSError:
        return True  # it has so much to do that it takes no connection
    return True
