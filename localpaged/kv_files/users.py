"""Which chats use which files, so that a chat that is deleted takes its files along.

One small file a chat, named by a digest of the chat's id. Without them nothing is lost but that:
files then go when the budget wants their place.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from localpaged import paths
from localpaged.atomic_file import write_atomically
from localpaged.kv_files.names import SUFFIX

log = logging.getLogger(__name__)

CHATS = "chats"
_LOCK = "lock"
_MAX_BYTES = 16 << 20


def note(root: Path, chat_id: str, files: Iterable[Path]) -> None:
    """Note that a chat uses files below `root`, beside those that it used. Raises OSError."""
    paths.ensure_private_dir(root / CHATS)
    names = {f"{file.parent.name}/{file.name}" for file in files}
    with _locked(root):
        path = _path(root, chat_id)
        known = {name for name in _files(path) if (root / name).exists()}
        if names <= known:
            return
        content = json.dumps({"chat": chat_id, "files": sorted(known | names)})
        write_atomically(path, content.encode(), is_synced=False)


def forget(root: Path, chat_id: str) -> int:
    """Delete the files that no other chat uses; return how many. Raises OSError."""
    path = _path(root, chat_id)
    if not path.exists():
        return 0
    with _locked(root):
        mine = _files(path)
        for other in (root / CHATS).glob("*.json"):
            if other != path and mine:
                mine -= _files(other)
        for name in mine:
            (root / name).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return len(mine)


def noted_chats(root: Path) -> list[str]:
    """Return the ids of the chats that use files."""
    return [chat for path in (root / CHATS).glob("*.json") if (chat := _read(path)[0])]


def prune(root: Path) -> None:
    """Let go of chats whose files are all gone. Raises OSError."""
    with _locked(root):
        for path in (root / CHATS).glob("*.json"):
            if not any((root / name).exists() for name in _files(path)):
                path.unlink(missing_ok=True)


def _path(root: Path, chat_id: str) -> Path:
    digest = hashlib.blake2b(chat_id.encode("utf-8", "surrogatepass"), digest_size=16)
    return root / CHATS / f"{digest.hexdigest()}.json"


def _files(path: Path) -> set[str]:
    return _read(path)[1]


def _read(path: Path) -> tuple[str, set[str]]:
    """Return the chat and its files; nothing of a list that cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        content = json.loads(raw) if len(raw) <= _MAX_BYTES else {}
        return str(content["chat"]), {name for name in content["files"] if _is_ours(name)}
    except FileNotFoundError:
        return "", set()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("The list of KV files %s cannot be read: %r", path.name, error)
        return "", set()


def _is_ours(name: object) -> bool:
    """Whether a name leads to a file of ours and nowhere else, whoever wrote it."""
    if not isinstance(name, str):
        return False
    folder, slash, file = name.partition("/")
    return bool(slash) and folder.isalnum() and "/" not in file and file.endswith(SUFFIX)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(root / _LOCK, flags, paths.PRIVATE_FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
