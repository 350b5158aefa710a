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

    White space becomes single spaces; what is left out at the ends is told by nothing. A term that
    stands there as a whole word is found as one, else as the beginning of words, else anywhere.
    """
    wanted = [_best_pattern(term, folded) for term in terms]
    found = [match.start() for pattern in wanted if (match := pattern.search(folded))]
    at = near(text, min(found)) if found else 0
    start = max(0, at - BEFORE_CHARS - _SLACK_CHARS)
    end = at + SNIPPET_CHARS + _SLACK_CHARS
    line = _SPACES.sub(" ", text[start:end]).strip()
    folded_line, origins = folded_with_origins(line)
    # at an end that was cut a part of a word looks like a whole one
    bounds = range(int(start > 0), len(line) + int(end >= len(text)))
    places = _places(folded_line, origins, wanted, bounds)
    first = max(0, (places[0][0] if places else 0) - BEFORE_CHARS)
    if first:
        # begin with a whole word where there is one
        space = line.find(" ", first, first + BEFORE_CHARS // 2)
        first = space + 1 if space >= 0 else first
    shown = line[first : first + SNIPPET_CHARS]
    kept = ((a - first, min(b - first, len(shown))) for a, b in places if a - first < len(shown))
    return Snippet(shown, tuple(kept))


def _best_pattern(term: str, folded: str) -> re.Pattern[str]:
    """What finds a term in a text the way the index by words does, if it is found so at all."""
    literal = re.escape(term)
    before = r"(?<![^\W_])" if _is_of_word(term[0]) else ""
    after = r"(?![^\W_])" if _is_of_word(term[-1]) else ""
    patterns = [re.compile(part) for part in (before + literal + after, before + literal, literal)]
    return next((pattern for pattern in patterns if pattern.search(folded)), patterns[-1])


def _is_of_word(character: str) -> bool:
    return re.match(r"[^\W_]", character) is not None


def _places(
    folded: str, origins: Sequence[int], wanted: Sequence[re.Pattern[str]], bounds: range
) -> list[tuple[int, int]]:
    """Where it is found in the text that was folded, within bounds; what touches becomes one."""
    spans = sorted(
        (origins[match.start()], _end_of(origins, match.end()))
        for pattern in wanted
        for match in pattern.finditer(folded)
    )
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if start not in bounds or end not in bounds:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _end_of(origins: Sequence[int], folded_end: int) -> int:
    """The end of the cluster that the last folded character came from."""
    last = origins[folded_end - 1]
    return next(origin for origin in origins[folded_end:] if origin > last)
