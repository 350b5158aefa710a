"""The stretch of a text around what was found in it, and where in that the hits are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from localpaged.store.fold import folded_with_origins, near

SNIPPET_CHARS = 240
BEFORE_CHARS = 40
_SPACES = re.compile(r"\s+")
# a hit is looked for a little around the place where it is expected
_SLACK_CHARS = 64


class Snippet(NamedTuple):
    """One line of text; `places` are (start, end) offsets of the hits in it, in order."""

    text: str
    places: tuple[tuple[int, int], ...] = ()


def snippet_of(text: str, folded: str, terms: Sequence[str]) -> Snippet:
    """Cut a snippet out of `text`, whose folded form is `folded`, around the first of `terms`.

    White space becomes single spaces; what is left out at the ends is told by nothing.
    """
    found = [at for term in terms if (at := folded.find(term)) >= 0]
    at = near(text, min(found)) if found else 0
    start = max(0, at - BEFORE_CHARS)
    window = text[max(0, start - _SLACK_CHARS) : at + SNIPPET_CHARS + _SLACK_CHARS]
    line = _SPACES.sub(" ", window).strip()
    folded_line, origins = folded_with_origins(line)
    places = _places(folded_line, origins, terms)
    first = max(0, (places[0][0] if places else 0) - BEFORE_CHARS)
    if first:
        # begin with a whole word where there is one
        space = line.find(" ", first, first + BEFORE_CHARS // 2)
        first = space + 1 if space >= 0 else first
    shown = line[first : first + SNIPPET_CHARS]
    kept = ((a - first, min(b - first, len(shown))) for a, b in places if a - first < len(shown))
    return Snippet(shown, tuple(kept))


def _places(folded: str, origins: Sequence[int], terms: Sequence[str]) -> list[tuple[int, int]]:
    """Where the terms stand in the text that was folded; places that touch become one."""
    spans = sorted(
        (origins[match.start()], _end_of(origins, match.end()))
        for term in terms
        for match in re.finditer(re.escape(term), folded)
    )
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _end_of(origins: Sequence[int], folded_end: int) -> int:
    """The end of the cluster that the last folded character came from."""
    last = origins[folded_end - 1]
    return next(origin for origin in origins[folded_end:] if origin > last)
