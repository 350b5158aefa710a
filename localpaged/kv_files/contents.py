"""What is known of the tokens in files beyond their names: where a prompt only begins like one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from localpaged.kv_files.folder import name_of
from localpaged.kv_files.identity import KVIdentity
from localpaged.kv_files.names import Digests, FileName, Index
from localpaged.kv_files.segment import Segment

MAX_GUESSES = 2
"""So many files are read to see how they begin."""
MAX_KNOWN = 1_024


class Guess(NamedTuple):
    """A file of which the first `num_blocks` are what is wanted, or are likely to be."""

    name: FileName
    num_blocks: int


class Contents:
    """The own tokens of files that were read or written lately. Written on the keeper's thread."""

    def __init__(self) -> None:
        self._known: dict[FileName, tuple[int, ...]] = {}

    def note(self, segment: Segment, identity: KVIdentity) -> None:
        """Remember the tokens of a file."""
        if len(self._known) >= MAX_KNOWN:
            del self._known[next(iter(self._known))]
        first = len(segment.ids) - segment.num_blocks * identity.block_size
        self._known[name_of(segment, identity)] = segment.ids[first:]

    def ids_of(self, name: FileName) -> tuple[int, ...] | None:
        """Return the tokens of a file; None when they are not known."""
        return self._known.get(name)


def guesses_behind(
    files: Sequence[FileName],
    index: Index,
    digests: Digests,
    ids: Sequence[int],
    contents: Contents,
    identity: KVIdentity,
) -> list[Guess]:
    """Return which files may go on as `ids` do behind the chain `files`, the best first.

    Of one whose tokens are not known, half of what it could have is expected.
    """
    if files and files[-1].num_blocks < identity.segment_blocks:
        return []
    size = identity.block_size
    position = sum(name.num_blocks for name in files) * size
    rest = tuple(ids[position : position + identity.segment_tokens])
    guesses = []
    for name in index.get(digests.at(position), ()):
        own = contents.ids_of(name)
        if own is None:
            num_blocks = min(name.num_blocks, len(rest) // size) // 2
        else:
            num_blocks = num_common(own, rest) // size
        if num_blocks:
            guesses.append(Guess(name, num_blocks))
    return sorted(guesses, key=lambda guess: -guess.num_blocks)[:MAX_GUESSES]


def num_common(left: Sequence[object], right: Sequence[object]) -> int:
    """Return how many values two sequences begin with in common."""
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return next(i for i in range(shorter) if left[i] != right[i])
