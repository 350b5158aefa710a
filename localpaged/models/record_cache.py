"""Keeps what opening a model found out, so that the next start parses nothing again.

One file for each model below `cache_dir()/models`: a line that tells format, lengths and digest,
then the record and the tokenizer as JSON. Its name holds the model's path and the state of its
files, so a changed model never meets its old entry. An entry that is cut, damaged or of another
format is no entry. Deleting the folder costs one slower start.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from pathlib import Path

import tokenizers

from localpaged import paths
from localpaged.atomic_file import write_atomically
from localpaged.models.model_record import ModelRecord, record_from_json, record_to_json

FORMAT = f"localpaged-model-2 tokenizers-{tokenizers.__version__}"
MAX_ENTRY_BYTES = 256 * 2**20

_SUFFIX = ".opened"
_log = logging.getLogger(__name__)


def cache_entry(source: Path) -> Path:
    """Return the file for what is known about the model at `source` as it is now."""
    where = _digest(os.fsencode(source.resolve()))
    return paths.cache_dir() / "models" / f"{where}-{model_state(source)}{_SUFFIX}"


def read_record(entry: Path) -> ModelRecord | None:
    """Return what is kept in `entry`, None when that is nothing usable."""
    try:
        if entry.stat().st_size > MAX_ENTRY_BYTES:
            return None
        head, _, body = entry.read_bytes().partition(b"\n")
        described = json.loads(head)
        if described != _description(body, described["record_bytes"]):
            return None
        cut = described["record_bytes"]
        return record_from_json(json.loads(body[:cut]), text_tokenizer=body[cut:].decode())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        _log.warning("The cache entry %s is not usable and is made again: %s", entry.name, error)
        return None


def write_record(entry: Path, record: ModelRecord) -> None:
    """Keep `record` in `entry`; a full or read-only disk costs only the speed.

    `entry` must be from before the model was read: one that changes meanwhile is then read again.
    """
    # names of files may be no text, and are read again as they are written here
    known = json.dumps(record_to_json(record), ensure_ascii=False).encode(errors="surrogatepass")
    body = known + record.tokenizer.text_tokenizer.encode()
    head = json.dumps(_description(body, len(known))).encode()
    try:
        folder = paths.ensure_private_dir(entry.parent)
        write_atomically(entry, head + b"\n" + body)
        for other in folder.glob(f"*{entry.name.partition('-')[0]}-*"):
            if other != entry:
                other.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("The cache entry %s could not be written: %s", entry, error)


def model_state(source: Path) -> str:
    """Return a digest of the names, sizes and times of the model's files."""
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    states = []
    for file in files:
        try:
            status = file.stat()
        except FileNotFoundError:  # a link that leads nowhere
            continue
        if stat.S_ISREG(status.st_mode):
            states.append((file.name, status.st_size, status.st_mtime_ns, status.st_ino))
    return _digest(repr(states).encode())


def _description(body: bytes, record_bytes: object) -> dict[str, object]:
    return {
        "format": FORMAT,
        "record_bytes": record_bytes,
        "body_bytes": len(body),
        "digest": _digest(body),
    }


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
