"""Detokenizer: text from token ids as it becomes certain; cuts at stop strings."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

MAX_PART_BYTES = 3


class Detokenizer:
    """One answer's text. Engine thread only.

    Bytes of each token go through an incremental UTF-8 decoder, so a character cut by a token
    border waits (three bytes at most), invalid bytes become U+FFFD at once, and the cost of a
    token does not depend on the text before it. Text that may begin a stop string is held back.
    The text sent is always the text before the earliest stop string.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        *,
        stop: tuple[str, ...] = (),
        strips_first_space: bool = False,
    ) -> None:
        self._token_bytes = token_bytes
        self._strips_first_space = strips_first_space
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stop = stop
        self._held = ""
        self.is_stopped = False

    def go_on(self, token_ids: Sequence[int]) -> None:
        """Begin behind these tokens: they may end with a part of a character."""
        tail = b""
        for token_id in reversed(token_ids):
            if len(tail) >= MAX_PART_BYTES:
                break
            tail = self._bytes_of(token_id) + tail
        self._decoder.decode(_part_at_end(tail))

    def push(self, token_id: int) -> str:
        """Take a token; return the text that is certain now."""
        data = self._bytes_of(token_id)
        if data and self._strips_first_space:
            data = data.removeprefix(b" ")
            self._strips_first_space = False
        return self._release(self._decoder.decode(data), is_end=False)

    def finish(self) -> str:
        """Return what was held back; the answer is over.

        A part of a character at its end is no text: whoever goes on has its token.
        """
        return self._release("", is_end=True)

    def _bytes_of(self, token_id: int) -> bytes:
        return self._token_bytes[token_id] if token_id < len(self._token_bytes) else b""

    def _release(self, text: str, *, is_end: bool) -> str:
        if self.is_stopped:
            return ""
        self._held += text
        found = [at for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if found:
            # A match can still be beaten by a longer stop string that began before it.
            cut = min(found)
            if is_end or self._suspect_from() >= cut:
                self.is_stopped = True
                certain, self._held = self._held[:cut], ""
                return certain
        keep_from = len(self._held) if is_end else min([self._suspect_from(), *found])
        certain, self._held = self._held[:keep_from], self._held[keep_from:]
        return certain

    def _suspect_from(self) -> int:
        """Where the held text may turn into a stop string with what comes next."""
        end = len(self._held)
        first = end
        for stop in self._stop:
            for length in range(min(len(stop) - 1, end), 0, -1):
                if self._held.endswith(stop[:length]):
                    first = min(first, end - length)
                    break
        return first


def _part_at_end(data: bytes) -> bytes:
    """Return the bytes at the end that are the beginning of a character."""
    for length in range(1, min(MAX_PART_BYTES, len(data)) + 1):
        first = data[-length]
        if first >= 0xC0:  # the first byte of a character of several
            needed = 2 + (first >= 0xE0) + (first >= 0xF0)
            return data[-length:] if length < needed else b""
        if first < 0x80:
            break
    return b""
