"""What files are called: a name tells which prefix it goes on from and which it leads to.

So a list of names is an index, and finding what the disk has of a prompt reads nothing. A name is
a hint alone: what is in the file is compared token by token.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from localpaged.kv_files.identity import KVIdentity
from localpaged.kv_files.segment import pack_ids

SUFFIX = ".safetensors"
_NAME = re.compile(rf"([0-9a-f]{{32}})-([0-9a-f]{{32}})-([0-9]{{2}}){re.escape(SUFFIX)}")


class FileName(NamedTuple):
    """Digests of the prefix before the file and of the one with it; the blocks between them."""

    start: str
    end: str
    num_blocks: int

    @property
    def text(self) -> str:
        """The name in the folder."""
        return f"{self.start}-{self.end}-{self.num_blocks:02}{SUFFIX}"


Index = Mapping[str, Sequence[FileName]]
"""Files by the digest of the prefix that they go on from."""


class Digests:
    """Digests of the beginnings of one sequence of tokens; each token is read about once."""

    def __init__(self, identity: KVIdentity, ids: Sequence[int]) -> None:
        self._ids = ids
        self._step = identity.segment_tokens
        self._whole = [hashlib.blake2b(identity.fingerprint.encode(), digest_size=16)]

    def at(self, num_tokens: int) -> str:
        """Return the digest of the first `num_tokens` tokens."""
        assert num_tokens <= len(self._ids)
        full = num_tokens // self._step
        while len(self._whole) <= full:
            start = (len(self._whole) - 1) * self._step
            grown = self._whole[-1].copy()
            grown.update(pack_ids(self._ids[start : start + self._step]))
            self._whole.append(grown)
        rest = self._whole[full].copy()
        rest.update(pack_ids(self._ids[full * self._step : num_tokens]))
        return rest.hexdigest()


def parse_name(text: str) -> FileName | None:
    """Return what a name in the folder says; None for what is not one of ours."""
    match = _NAME.fullmatch(text)
    return FileName(match[1], match[2], int(match[3])) if match and int(match[3]) else None


def make_index(names: Iterable[FileName]) -> Index:
    """Return the index of some names."""
    index: dict[str, list[FileName]] = {}
    for name in names:
        index.setdefault(name.start, []).append(name)
    return index


def chain(
    index: Index, digests: Digests, identity: KVIdentity, *, num_tokens: int
) -> list[FileName]:
    """Return the files that hold the longest beginning of the first `num_tokens` tokens."""
    files: list[FileName] = []
    position, size = 0, identity.block_size
    while True:
        fitting = [
            name
            for name in index.get(digests.at(position), ())
            if position + name.num_blocks * size <= num_tokens
            and digests.at(position + name.num_blocks * size) == name.end
        ]
        if not fitting:
            return files
        files.append(max(fitting, key=lambda name: name.num_blocks))
        position += files[-1].num_blocks * size
        if files[-1].num_blocks < identity.segment_blocks:
            return files  # the end of a path; files begin where whole ones end
