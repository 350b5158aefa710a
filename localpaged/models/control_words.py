"""Finds control words in text; a vocabulary may have thousands of them, as Gemma's has.

One pattern of so many words takes half a second to compile and a third of a millisecond at every
bracket of a text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator


class ControlWords:
    """The words of one model. Immutable."""

    def __init__(self, words: Collection[str]) -> None:
        self._words = frozenset(word for word in words if word)
        lengths: dict[str, set[int]] = {}
        for word in self._words:
            lengths.setdefault(word[0], set()).add(len(word))
        self._lengths = {first: sorted(known, reverse=True) for first, known in lengths.items()}
        self.first_characters = "".join(sorted(lengths))

    def at(self, text: str, place: int, *, followed_by: str = "") -> str | None:
        """Return the longest word that begins at a place, and that such a text follows."""
        for length in self._lengths.get(text[place : place + 1], ()):
            word = text[place : place + length]
            if word in self._words and text.startswith(followed_by, place + length):
                return word
        return None

    def wrapped(self, text: str, before: str, behind: str) -> str:
        """Return a text in which each word is between two marks."""
        pieces, done = [], 0
        for place in self._candidates(text):
            if place >= done and (word := self.at(text, place)) is not None:
                pieces += [text[done:place], before, word, behind]
                done = place + len(word)
        return "".join((*pieces, text[done:]))

    def _candidates(self, text: str) -> Iterator[int]:
        if self._words:
            for match in re.finditer(f"[{re.escape(self.first_characters)}]", text):
                yield match.start()
