"""Reads tensor bytes from the files of an opened model.

Reads, not maps: a mapped file that is cut while in use kills the process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from localpaged.errors import BadModelFile
from localpaged.models.tensor_layout import TensorPlace
from localpaged.plain_text import visible


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a model and what tells that it is still the same."""

    path: Path
    num_bytes: int
    mtime_ns: int


def source_file(path: Path) -> SourceFile:
    """Describe `path` as it is now."""
    status = path.stat()
    return SourceFile(path, status.st_size, status.st_mtime_ns)


class TensorFiles:
    """Open descriptors of a model's files, each opened at its first read. One thread.

    Invariant: every descriptor belongs to a file that is what it was when the model was opened.
    """

    def __init__(self, files: tuple[SourceFile, ...]) -> None:
        self._known = {file.path: file for file in files}
        self._descriptors: dict[Path, int] = {}

    def read(self, place: TensorPlace, start: int, into: memoryview) -> None:
        """Fill `into` with the tensor's bytes from byte `start` on.

        Raises BadModelFile when the file has changed or cannot be read.
        """
        target = into.cast("B")
        try:
            descriptor = self._descriptor(place.file)
            offset = place.offset + start
            while len(target):
                count = os.preadv(descriptor, [target], offset)
                if count == 0:
                    raise _changed(place.file)
                target, offset = target[count:], offset + count
        except OSError as error:
            raise BadModelFile(
                f"{visible(str(place.file))} cannot be read: {error.strerror}.",
                hint="Check the disk and the file's permissions.",
            ) from error

    def check(self) -> None:
        """Raise BadModelFile where a file that was read has been written to since."""
        for path, descriptor in self._descriptors.items():
            self._check(path, descriptor)

    def close(self) -> None:
        """Close every descriptor."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _descriptor(self, path: Path) -> int:
        if path not in self._descriptors:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._descriptors[path] = descriptor
            self._check(path, descriptor)
        return self._descriptors[path]

    def _check(self, path: Path, descriptor: int) -> None:
        status, known = os.fstat(descriptor), self._known[path]
        if (status.st_size, status.st_mtime_ns) != (known.num_bytes, known.mtime_ns):
            raise _changed(path)


def _changed(path: Path) -> BadModelFile:
    return BadModelFile(
        f"{visible(str(path))} has changed since the model was opened.",
        hint="Start again once the file is complete.",
    )
