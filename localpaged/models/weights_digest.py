"""A digest of all bytes of a model's weights, computed once for each state of its files.

Size, times and inode alone would do for nearly every file that takes another's place, but KV of
other weights would be nonsense that nothing tells from sense. So the bytes decide, and what they
come to is kept as long as no file's inode says that it was touched: the system sets `ctime`
whenever content or name changes, and lets nobody set it back.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from localpaged import paths
from localpaged.atomic_file import write_atomically
from localpaged.models.tensor_files import SourceFile

log = logging.getLogger(__name__)

CHUNK_BYTES = 8 << 20
MAX_KEPT = 64
MAX_KEPT_BYTES = 1 << 20
FRESH_S = 2.0
"""A file that was touched so lately could be touched again within one tick of the clock."""


def files_state(files: Sequence[SourceFile]) -> str:
    """Return what changes whenever one of the files is touched in any way. Raises OSError."""
    touched = [file.path.stat().st_ctime_ns for file in files]
    return hashlib.blake2b(f"{files_version(files)} {touched}".encode(), digest_size=16).hexdigest()


def files_version(files: Sequence[SourceFile]) -> str:
    """Return what changes when one of the files is written or replaced, unless its time is forged.

    Another link to a file, or other rights, change its state alone. Raises OSError.
    """
    versions = []
    for file in files:
        status = file.path.stat()
        numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        versions.append((file.path.name, *numbers))
    return repr(versions)


def weights_digest(
    files: Sequence[SourceFile], on_progress: Callable[[int, int], None] = lambda done, total: None
) -> str:
    """Return a digest of the files' contents; from the cache where they are untouched.

    `on_progress` is told bytes that were read and all there are. Raises OSError.
    """
    state, version = files_state(files), files_version(files)
    known = _kept()
    if state in known:
        return known[state]
    whole = hashlib.sha256()
    total, done = sum(file.num_bytes for file in files), 0
    for source in files:
        whole.update(os.fsencode(f"{source.path.name} {source.num_bytes} "))
        with source.path.open("rb", buffering=0) as file:
            left = source.num_bytes
            # no further than it was long: one that grows meanwhile would be read for ever
            while chunk := file.read(min(CHUNK_BYTES, left)):
                whole.update(chunk)
                left -= len(chunk)
                done += len(chunk)
                on_progress(done, total)
    if files_version(files) != version:
        raise OSError(None, "the model's files change while they are read")
    digest = whole.hexdigest()
    touched_s = max(file.path.stat().st_ctime for file in files)
    if time.time() - touched_s > FRESH_S and files_state(files) == state:
        _keep({**dict(list(known.items())[1 - MAX_KEPT :]), state: digest})
    return digest


def _file() -> Path:
    return paths.cache_dir() / "models" / "weights.json"


def _kept() -> dict[str, str]:
    try:
        if _file().stat().st_size > MAX_KEPT_BYTES:
            return {}
        content = json.loads(_file().read_bytes())
        return {str(state): str(digest) for state, digest in content.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        log.warning("The digests of weights in %s are made again: %s", _file(), error)
        return {}


def _keep(known: dict[str, str]) -> None:
    try:
        paths.ensure_private_dir(_file().parent)
        write_atomically(_file(), json.dumps(known).encode())
    except OSError as error:
        log.warning(
            "The digest of the weights could not be kept: %s", os.strerror(error.errno or 0)
        )
