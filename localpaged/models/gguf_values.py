"""Reads GGUF's typed values out of a buffer, believing nothing it says about sizes.

Every count and length is compared with a limit and with the bytes that are left before anything
of that size is made, so a crafted file costs no more memory than its own length.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence

Value = bool | int | float | str | Sequence["Value"]

MAX_KEY_BYTES = 65_535
MAX_STRING_BYTES = 8 * 2**20
MAX_STRINGS = 2**20
MAX_ARRAY_DEPTH = 2

_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_NUMBER = {kind: struct.Struct("<" + code) for kind, code in _NUMBERS.items()}
_U64 = struct.Struct("<Q")


class Damaged(Exception):
    """The bytes contradict the format; the message says how."""


class Short(Exception):
    """The buffer ends before byte `end`; it may be only the first part of the file."""

    def __init__(self, end: int) -> None:
        super().__init__(f"needs {end:,} bytes")
        self.end = end


class ValueReader:
    """A position in a buffer that holds the beginning of a file. One thread.

    Invariant: `position` never passes the end of the buffer; a read that would raises Short.
    """

    def __init__(self, buffer: bytes) -> None:
        self._buffer = buffer
        self.position = 0
        self._strings_left = MAX_STRINGS

    def u32(self) -> int:
        """Read an unsigned 32-bit number."""
        return int.from_bytes(self._take(4), "little")

    def u64(self) -> int:
        """Read an unsigned 64-bit number."""
        return int.from_bytes(self._take(8), "little")

    def text(self, what: str, max_bytes: int = MAX_STRING_BYTES) -> str:
        """Read a string; Damaged when it is longer than `max_bytes` or not UTF-8."""
        length = self.u64()
        if length > max_bytes:
            raise Damaged(f"{what} is {length:,} bytes long, {max_bytes:,} are possible")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise Damaged(f"{what} is not UTF-8 text") from error

    def value(self, what: str) -> Value:
        """Read a type and its value."""
        return self._value(self.u32(), what, depth=0)

    def _value(self, kind: int, what: str, *, depth: int) -> Value:
        if kind == _STRING:
            return self.text(what)
        if kind == _ARRAY:
            return self._array(what, depth=depth + 1)
        if kind == _BOOL:
            return self._flag(what)
        if (number := _NUMBER.get(kind)) is None:
            raise Damaged(f"{what} has the unknown value type {kind}")
        return number.unpack(self._take(number.size))[0]  # type: ignore[no-any-return]

    def _array(self, what: str, *, depth: int) -> Sequence[Value]:
        if depth > MAX_ARRAY_DEPTH:
            raise Damaged(f"{what} nests arrays more than {MAX_ARRAY_DEPTH} deep")
        kind, length = self.u32(), self.u64()
        if (number := _NUMBER.get(kind)) is not None:
            return self._numbers(_NUMBERS[kind], length, number.size)
        if kind == _BOOL:
            return tuple(self._flag(what) for _ in range(self._reserve(length, 1, what)))
        if kind == _STRING:
            return self._texts(self._reserve(length, _U64.size, what), what)
        if kind == _ARRAY:
            items = range(self._reserve(length, 12, what))
            return tuple(self._array(what, depth=depth + 1) for _ in items)
        raise Damaged(f"{what} has the unknown value type {kind}")

    def _texts(self, count: int, what: str) -> Sequence[str]:
        """Read `count` strings; a plain loop, for a vocabulary has up to half a million."""
        buffer, position, end_of_buffer = self._buffer, self.position, len(self._buffer)
        length_at = _U64.unpack_from
        texts: list[bytes] = []
        for _ in range(count):
            start = position + 8
            if start > end_of_buffer:
                raise Short(start)
            (length,) = length_at(buffer, position)
            position = start + length
            if position > end_of_buffer:
                if length > MAX_STRING_BYTES:
                    raise Damaged(f"{what} holds a string of {length:,} bytes")
                raise Short(position)
            texts.append(buffer[start:position])
        self.position = position
        try:
            return [text.decode() for text in texts]
        except UnicodeDecodeError as error:
            raise Damaged(f"{what} holds a string that is not UTF-8") from error

    def _numbers(self, code: str, length: int, item_bytes: int) -> Sequence[Value]:
        numbers = array(code)
        numbers.frombytes(self._take(length * item_bytes))
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers

    def _flag(self, what: str) -> bool:
        byte = self._take(1)[0]
        if byte > 1:
            raise Damaged(f"{what} is neither true nor false but {byte}")
        return bool(byte)

    def _reserve(self, count: int, least_bytes: int, what: str) -> int:
        """Return `count` once it is sure that so many items of `least_bytes` can be there."""
        if count > self._strings_left:
            raise Damaged(f"{what} counts {count:,} items, {MAX_STRINGS:,} are possible")
        if (end := self.position + count * least_bytes) > len(self._buffer):
            raise Short(end)
        self._strings_left -= count
        return count

    def _take(self, length: int) -> bytes:
        end = self.position + length
        if end > len(self._buffer):
            raise Short(end)
        taken = self._buffer[self.position : end]
        self.position = end
        return taken
