"""One file: the KV of up to `segment_blocks` blocks, and the tokens from the first one on.

A safetensors file whose header is a function of identity, counts and checksum, so it is compared
as a whole: there is nothing in it that could be wrong and still be believed. docs/kv-files.md
tells the format.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from localpaged.kv_files.identity import FORMAT, ID_BYTES, KVIdentity

MAX_HEADER_BYTES = 1 << 16
MAX_TOKENS = 1 << 24

_LENGTH_BYTES = 8


class Unusable(Exception):
    """A file cannot be used; the text is a reason that goes on from "a KV file"."""


@dataclass(frozen=True, slots=True)
class Segment:
    """KV of the last `num_blocks` blocks of the prefix `ids`, which ends with a full block.

    `parts` are the bytes of the identity's parts.
    """

    ids: tuple[int, ...]
    num_blocks: int
    parts: tuple[memoryview, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of the parts."""
        return sum(part.nbytes for part in self.parts)


def pack_ids(ids: Sequence[int]) -> bytes:
    """Return token ids as little-endian 32-bit numbers."""
    numbers = array("i", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpack_ids(packed: memoryview) -> tuple[int, ...]:
    """Return the token ids of `pack_ids`."""
    numbers = array("i")
    numbers.frombytes(packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def encode(segment: Segment, identity: KVIdentity) -> list[memoryview]:
    """Return what a file of the segment consists of, one after another."""
    data = [memoryview(pack_ids(segment.ids)), *segment.parts]
    num_ids, num_blocks = len(segment.ids), segment.num_blocks
    checksum = _checksum(identity, num_ids, num_blocks, data)
    return [memoryview(_header(identity, num_ids, num_blocks, checksum)), *data]


def decode(content: memoryview, identity: KVIdentity) -> Segment:
    """Return the segment of a whole file. Raises Unusable unless every bit of it is right."""
    header, num_ids, num_blocks, checksum = _described(content)
    _check_facts(header, identity)
    expected = _header(identity, num_ids, num_blocks, checksum)
    if content[: len(expected)] != expected:
        raise Unusable("is damaged: its header is not what it should be")
    ids_end = len(expected) + num_ids * ID_BYTES
    bounds = [len(expected), ids_end]
    for part in identity.parts:
        bounds.append(bounds[-1] + part.block_bytes * num_blocks)
    if bounds[-1] != len(content):
        raise Unusable(f"is damaged: it has {len(content):,} bytes instead of {bounds[-1]:,}")
    data = [content[start:end] for start, end in pairwise(bounds)]
    if _checksum(identity, num_ids, num_blocks, data) != checksum:
        raise Unusable("is damaged: its checksum is wrong")
    return Segment(unpack_ids(data[0]), num_blocks, tuple(data[1:]))


def _described(content: memoryview) -> tuple[dict[str, str], int, int, str]:
    """Read what a header says of itself; nothing of it is believed before it is compared."""
    if len(content) < _LENGTH_BYTES:
        raise Unusable("is damaged: it is cut")
    header_bytes = int.from_bytes(content[:_LENGTH_BYTES], "little")
    if header_bytes > min(MAX_HEADER_BYTES, len(content) - _LENGTH_BYTES):
        raise Unusable("is damaged: its header is cut")
    try:
        raw = json.loads(bytes(content[_LENGTH_BYTES : _LENGTH_BYTES + header_bytes]))
        header = raw["__metadata__"]
        num_ids, num_blocks = int(header["num_tokens"]), int(header["num_blocks"])
        checksum = header["checksum"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unusable("is damaged: its header is not one of ours") from error
    is_text = isinstance(checksum, str) and len(checksum) == hashlib.sha256().digest_size * 2
    if not is_text or not 0 < num_blocks <= num_ids <= MAX_TOKENS:
        raise Unusable("is damaged: its header makes no sense")
    return header, num_ids, num_blocks, checksum


def _check_facts(header: dict[str, str], identity: KVIdentity) -> None:
    if header.get("format") != FORMAT:
        raise Unusable("is of another version of localpaged")
    for name, value in (("fingerprint", identity.fingerprint), *identity.facts):
        if header.get(name) != value:
            raise Unusable(f"is of another computation: its {name} is not ours")


def _header(identity: KVIdentity, num_ids: int, num_blocks: int, checksum: str) -> bytes:
    described: dict[str, object] = {
        "__metadata__": {
            "format": FORMAT,
            "fingerprint": identity.fingerprint,
            **dict(identity.facts),
            "block_size": str(identity.block_size),
            "num_tokens": str(num_ids),
            "num_blocks": str(num_blocks),
            "checksum": checksum,
        }
    }
    end = num_ids * ID_BYTES
    described["token_ids"] = {"dtype": "I32", "shape": [num_ids], "data_offsets": [0, end]}
    for part in identity.parts:
        start, end = end, end + part.block_bytes * num_blocks
        described[part.name] = {
            "dtype": part.dtype,
            "shape": part.shape(num_blocks),
            "data_offsets": [start, end],
        }
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin where 8 divides, says safetensors
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def _checksum(
    identity: KVIdentity, num_ids: int, num_blocks: int, data: Sequence[memoryview]
) -> str:
    """Digest the header, without the checksum itself, and everything behind it."""
    whole = hashlib.sha256(_header(identity, num_ids, num_blocks, ""))
    for piece in data:
        whole.update(piece)
    return whole.hexdigest()
