"""Reading the elements of one long JSON list without holding the whole file.

A file is a list, or an object whose last key has the list. Each element is parsed by itself, so
a gigabyte of chats needs the memory of its longest chat.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

CHUNK_CHARS = 1 << 18
MAX_ELEMENT_CHARS = 1 << 28
# the longest thing that is wrong when it is cut, and not at its very end
_CUT_CHARS = 16
_SPACES = " \t\n\r"


class BadJson(Exception):
    """The file is not JSON, or ends too early; the text says where."""


class JsonStream:
    """One pass over a file: `header` first, then the elements. Not for several threads.

    Invariant: `_buffer[_at:]` is what was read and is not parsed yet, and `_before` characters were
    dropped before the buffer.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._decoder = json.JSONDecoder(parse_constant=_refuse_constant)
        self._buffer = ""
        self._at = 0
        self._before = 0
        self._is_ended = False

    def header(self, list_name: str) -> dict[str, Any] | None:
        """Read up to the list; return the keys before it, None where the file is a list itself.

        Raises BadJson.
        """
        opening = self._next()
        if opening == "[":
            return None
        if opening != "{":
            raise BadJson("it is neither a JSON list nor an object")
        keys: dict[str, Any] = {}
        while self._peek() != "}":
            name = self._value()
            if not isinstance(name, str):
                raise BadJson("a name is expected")
            self._expect(":")
            if name == list_name:
                self._expect("[")
                return keys
            keys[name] = self._value()
            if self._peek() == ",":
                self._next()
        return {**keys, list_name: None}

    def elements(self) -> Iterator[Any]:
        """The elements of the list, one after another. Raises BadJson, maybe after some."""
        while self._peek() != "]":
            yield self._value()
            following = self._peek()
            if following == ",":
                self._next()
            elif following != "]":
                raise BadJson(f"character {self._position:,} is not “,” or “]”")

    @property
    def _position(self) -> int:
        return self._before + self._at

    def _value(self) -> Any:
        """Parse the next value; read more as long as it may be cut."""
        self._peek()
        wanted = CHUNK_CHARS
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if self._is_ended or not self._may_be_cut(error):
                    raise BadJson(_told(error, self._before)) from error
            except (ValueError, RecursionError) as error:
                raise BadJson(f"near character {self._position:,}: {_reason(error)}") from error
            else:
                # a number at the very end of what was read may go on
                if self._is_ended or end < len(self._buffer):
                    self._at = end
                    return value
            self._check_size()
            self._more(wanted)
            wanted = min(2 * wanted, MAX_ELEMENT_CHARS)

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether more of the file may mend it: it is at the end of what was read."""
        return error.msg.startswith("Unterminated") or error.pos >= len(self._buffer) - _CUT_CHARS

    def _check_size(self) -> None:
        if len(self._buffer) - self._at > MAX_ELEMENT_CHARS:
            raise BadJson(f"what begins at character {self._position:,} is too long")

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise BadJson(f"character {self._position - 1:,} is not “{character}”")

    def _next(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def _peek(self) -> str:
        """Return the next character that is no white space. Raises BadJson at the file's end."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in _SPACES:
                self._at += 1
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._is_ended:
                raise BadJson("it ends too early")
            self._more(CHUNK_CHARS)

    def _more(self, num_chars: int) -> None:
        self._before += self._at
        piece = self._file.read(num_chars)
        self._buffer = self._buffer[self._at :] + piece
        self._at = 0
        self._is_ended = not piece


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _told(error: json.JSONDecodeError, before: int) -> str:
    return f"{error.msg} near character {before + error.pos:,}"


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
