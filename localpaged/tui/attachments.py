"""Text files for a message: found, checked and read, whatever they turn out to be. Any thread."""

from __future__ import annotations

import codecs
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from localpaged.errors import ChatError
from localpaged.tui.figures import byte_size

MAX_BYTES = 1 << 22
MAX_PATH_CHARS = 4_096
# text has tabs, line ends and form feeds; more of the others is something else
_CONTROLS = frozenset(range(32)) - {9, 10, 12, 13, 27}
_MAX_STRANGE_SHARE = 0.1
_KINDS = (
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file's name and text. `num_replaced` bytes were no UTF-8 and are replacement marks now."""

    name: str
    text: str
    num_replaced: int = 0


def read_attachment(written: str) -> Attachment:
    """Read the file that a person wrote the path of. Raises ChatError with what is wrong."""
    path = path_of(written)
    try:
        raw = _read(path)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ChatError(
            "This is not a path: it has a character that no file name can have."
        ) from error
    text, num_replaced = _decoded(path, raw)
    text = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    if not text.strip():
        raise _refused(path, "is empty")
    return Attachment(path.name, text, num_replaced)


def path_of(written: str) -> Path:
    """Return the path that is meant: quoted, escaped or as an address, as terminals drop it."""
    text = written.strip()
    if text.startswith("file://"):
        try:
            return Path(unquote(urlsplit(text).path))
        except ValueError:
            # no address, so it is a name
            return Path(text)
    path = Path(text)
    if any(mark in text for mark in "'\"\\") and not _exists(path):
        try:
            words = shlex.split(text)
        except ValueError:
            words = []
        if len(words) == 1:
            path = Path(words[0])
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def is_file_path(written: str) -> bool:
    """Whether a text is the path of a file, and meant as one: absolute or from the home folder."""
    text = written.strip()
    starts = ("/", "~/", "'/", '"/', "file:///")
    if len(text) > MAX_PATH_CHARS or "\n" in written or not text.startswith(starts):
        return False
    try:
        return path_of(text).is_file()
    except (OSError, ValueError):
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _read(path: Path) -> bytes:
    _check_kind(path, path.stat())
    # not to wait for the other end, should it be a pipe by now
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        _check_kind(path, os.fstat(descriptor))
        raw: bytes | None = file.read(MAX_BYTES + 1)
    if raw is None:
        # the kernel has files that look like others and make a reader wait for what comes
        raise _refused(path, "has nothing to read now")
    if len(raw) > MAX_BYTES:
        raise _refused(path, f"is longer than {byte_size(MAX_BYTES)}")
    return raw


def _check_kind(path: Path, found: os.stat_result) -> None:
    for is_kind, what in _KINDS:
        if is_kind(found.st_mode):
            raise _refused(path, what)
    if found.st_size > MAX_BYTES:
        raise _refused(
            path, f"has {byte_size(found.st_size)}, more than the {byte_size(MAX_BYTES)} possible"
        )


def _decoded(path: Path, raw: bytes) -> tuple[str, int]:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = raw.decode("utf-16", "replace")
        return text, text.count("\ufffd")
    text = raw.decode("utf-8-sig", "replace")
    num_replaced = text.count("\ufffd") - raw.count("\ufffd".encode())
    num_strange = num_replaced + sum(raw.count(bytes([code])) for code in _CONTROLS)
    if b"\x00" in raw or num_strange > _MAX_STRANGE_SHARE * len(text):
        raise _refused(path, "is not a text file")
    return text, num_replaced


def _refused(path: Path, what: str) -> ChatError:
    return ChatError(f"{path} {what}.", hint="Text files can be attached.")
