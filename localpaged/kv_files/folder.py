"""KVFolder: the files of one identity. Reads and writes whole files; believes none of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from localpaged import paths
from localpaged.kv_files.identity import KVIdentity
from localpaged.kv_files.names import Digests, FileName, Index, make_index, parse_name
from localpaged.kv_files.segment import MAX_HEADER_BYTES, Segment, Unusable, decode, encode

TEMPORARY = ".part"
MIN_FREE_BYTES = 512 << 20
"""So much of a disk is left to others."""

_MAX_IDS_BYTES = 64 << 20
_numbers = count()


class NoSpace(Exception):
    """A file was not written, because too little would be left of the disk."""


def kv_root() -> Path:
    """Return the folder of all KV files of this format; it need not exist."""
    return paths.cache_dir() / "kv" / "v1"


class KVFolder:
    """The files of one identity, in a folder below `root` named by its fingerprint. Any thread.

    Invariant: a name holds a whole file or nothing, readable by its owner alone.
    """

    def __init__(self, identity: KVIdentity, root: Path | None = None) -> None:
        self.identity = identity
        self.root = root or kv_root()
        self.path = self.root / identity.fingerprint

    def index(self) -> Index:
        """List what is here; nothing when there is no folder. Raises OSError."""
        try:
            names = [parse_name(entry.name) for entry in self.path.iterdir()]
        except FileNotFoundError:
            return {}
        return make_index(name for name in names if name is not None)

    def make(self) -> None:
        """Make the folder, for its owner alone. Raises OSError."""
        # never what lies above: another root's parent may be everybody's, such as /tmp
        for folder in (self.root, self.path):
            paths.ensure_private_dir(folder)

    def read(self, name: FileName) -> Segment:
        """Return what is in a file. Raises Unusable with the reason, FileNotFoundError if gone."""
        content = self._content(self.path / name.text)
        segment = decode(memoryview(content), self.identity)
        size = self.identity.block_size
        is_itself = segment.num_blocks == name.num_blocks <= self.identity.segment_blocks
        if not is_itself or len(segment.ids) % size or len(segment.ids) < name.num_blocks * size:
            raise Unusable("is damaged: it is not what its name says")
        return segment

    def write(self, segment: Segment, *, is_synced: bool = True) -> FileName:
        """Keep a segment under its name. Raises OSError and NoSpace, and leaves nothing then.

        `is_synced` False leaves it to the system when the file reaches the disk: what a power cut
        takes away of it fails its checksum.
        """
        name = name_of(segment, self.identity)
        self.make()
        disk = os.statvfs(self.path)
        if disk.f_bavail * disk.f_frsize < segment.num_bytes + MIN_FREE_BYTES:
            raise NoSpace(f"less than {MIN_FREE_BYTES >> 20} MiB would be left of the disk")
        temporary = self.path / f"{os.getpid()}-{next(_numbers)}{TEMPORARY}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, paths.PRIVATE_FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                for piece in encode(segment, self.identity):
                    _write_all(file.fileno(), piece)
                if is_synced:
                    os.fsync(file.fileno())
            temporary.replace(self.path / name.text)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return name

    def remove(self, name: FileName) -> None:
        """Delete a file, if it is there. Raises OSError."""
        (self.path / name.text).unlink(missing_ok=True)

    def touch(self, files: Iterable[FileName], *, now_ns: int) -> None:
        """Make the files of a path recent, its end a little less than its beginning.

        So files go from the end of a path, and none is kept that nothing leads to.
        """
        for place, name in enumerate(files):
            try:
                os.utime(self.path / name.text, ns=(now_ns - place, now_ns - place))
            except FileNotFoundError:
                return  # another program, or the user, has deleted it

    def _content(self, path: Path) -> bytearray:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with _opened(path, flags) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise Unusable("is not a file of this user")
            most = self.identity.block_bytes * self.identity.segment_blocks
            if status.st_size > most + MAX_HEADER_BYTES + _MAX_IDS_BYTES:
                raise Unusable("is damaged: it is too long")
            content = bytearray(status.st_size)
            rest = memoryview(content)
            while rest:
                num_read = os.readv(descriptor, [rest])
                if num_read == 0:
                    raise Unusable("is damaged: it is cut")
                rest = rest[num_read:]
            return content


def name_of(segment: Segment, identity: KVIdentity) -> FileName:
    """Return the name that a segment's file has."""
    digests = Digests(identity, segment.ids)
    num_before = len(segment.ids) - segment.num_blocks * identity.block_size
    return FileName(digests.at(num_before), digests.at(len(segment.ids)), segment.num_blocks)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, piece: memoryview) -> None:
    rest = piece.cast("B") if piece.nbytes else piece
    while rest:
        rest = rest[os.write(descriptor, rest) :]
