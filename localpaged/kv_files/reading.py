"""One reading: the files that hold some tokens, one after another, each compared with them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from localpaged.kv_files.contents import Contents, guesses_behind, num_common
from localpaged.kv_files.folder import KVFolder
from localpaged.kv_files.identity import KVIdentity
from localpaged.kv_files.names import Digests, FileName, Index, chain
from localpaged.kv_files.segment import Segment, Unusable


@dataclass(slots=True, eq=False)
class Reading:
    """What is to be read of `ids`, the first `num_known` of which nobody wants. Keeper's thread.

    `read_files` are all that hold it, those that were not read included. `guesses` go on from
    `ids` as far as is known, but may end otherwise.
    """

    ids: tuple[int, ...]
    num_known: int
    files: deque[FileName] = field(default_factory=deque)
    guesses: deque[FileName] = field(default_factory=deque)
    read_files: list[FileName] = field(default_factory=list)
    is_over: bool = False
    _seen: list[Segment] = field(default_factory=list)

    def plan(self, index: Index, contents: Contents, identity: KVIdentity) -> None:
        """Find the files that are to be read."""
        digests = Digests(identity, self.ids)
        known = chain(index, digests, identity, num_tokens=len(self.ids))
        position = 0
        for name in known:
            position += name.num_blocks * identity.block_size
            self.read_files.append(name)
            if position > self.num_known:
                self.files.append(name)
        guesses = guesses_behind(known, index, digests, self.ids, contents, identity)
        self.guesses.extend(guess.name for guess in guesses)

    def take_seen(self) -> list[Segment]:
        """Return what was read since the last time, whether it was of use or not."""
        seen, self._seen = self._seen, []
        return seen

    def see(self, segment: Segment) -> Segment:
        """Note what was read."""
        self._seen.append(segment)
        return segment

    def cancel(self) -> None:
        """Read nothing more."""
        self.is_over = True


@dataclass(frozen=True, slots=True)
class Arrived:
    """What was read: KV of a segment, the first `num_usable` blocks of it, or the reading's end.

    `reason` is a sentence that tells why there was not more, where that is no matter of course.
    """

    reading: Reading
    segment: Segment | None = None
    num_usable: int = 0
    is_last: bool = False
    reason: str = ""


def read_next(folder: KVFolder, reading: Reading) -> Arrived:
    """Read one more file, or end the reading. Deletes a file that can be of no use to anybody."""
    try:
        if reading.files:
            return _exact(folder, reading, reading.files[0])
        while reading.guesses:
            found = _guess(folder, reading, reading.guesses.popleft())
            if found is not None:
                return found
    except FileNotFoundError:
        return _end(reading, "A KV file was deleted while it was wanted.")
    except Unusable as unusable:
        return _end(reading, f"A KV file {unusable}; {_without(folder, reading)}.")
    except OSError as error:
        return _end(reading, f"A KV file cannot be read: {error.strerror or error}.")
    return _end(reading, "")


def _without(folder: KVFolder, reading: Reading) -> str:
    """Delete the file that was to be read; tell whether that was possible."""
    try:
        if reading.files:
            folder.remove(reading.files[0])
    except OSError as error:
        return f"it could not be deleted: {error.strerror or error}"
    return "it was deleted"


def _exact(folder: KVFolder, reading: Reading, name: FileName) -> Arrived:
    segment = reading.see(folder.read(name))
    if segment.ids != reading.ids[: len(segment.ids)]:
        raise Unusable("has other tokens than its name tells")
    reading.files.popleft()
    return Arrived(reading, segment, segment.num_blocks)


def _guess(folder: KVFolder, reading: Reading, name: FileName) -> Arrived | None:
    """Return the whole blocks that a file's tokens and the wanted ones begin with."""
    try:
        segment = reading.see(folder.read(name))
    except (Unusable, OSError):
        return None  # it is dealt with when somebody wants it
    size = folder.identity.block_size
    first = len(segment.ids) - segment.num_blocks * size
    common = num_common(segment.ids, reading.ids)
    num_usable = (common - first) // size
    if num_usable <= 0 or common <= reading.num_known:
        return None
    reading.guesses.clear()
    reading.read_files.append(name)
    return Arrived(reading, segment, num_usable)


def _end(reading: Reading, reason: str) -> Arrived:
    reading.cancel()
    return Arrived(reading, is_last=True, reason=reason)
