"""Token ids as the history keeps them: four bytes each, little-endian.

Half as many bytes would do for most ids, but then reading a long chat's ids would be a loop over
them; so it is one copy.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

ID_BYTES = 4


def pack(ids: Iterable[int]) -> bytes:
    """Return the ids as bytes; they must be from 0 to 2**32 - 1."""
    return _in_file_order(array("I", ids)).tobytes()


def unpack(packed: bytes) -> tuple[int, ...]:
    """Return the ids; bytes that make no whole id at the end are left out."""
    ids = array("I")
    ids.frombytes(packed[: len(packed) - len(packed) % ID_BYTES])
    return tuple(_in_file_order(ids))


def _in_file_order(ids: array[int]) -> array[int]:
    assert ids.itemsize == ID_BYTES
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
