"""Text as it is compared in a search: letter case, accents and widths make no difference.

`ＡＢＣ` is found by "abc", a decomposed or composed `é` by either and by "e", `ß` by "ss".
Marks of scripts other than the Latin, Greek and Cyrillic ones are letters there, and stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

_ACCENTS = re.compile("[\u0300-\u036f]+")
# what may melt into the character before it
_MELTS = re.compile("[\u1160-\u11ff\uff9e\uff9f]")
_CHUNK_CHARS = 256


def fold(text: str) -> str:
    """Return `text` as it is compared; it may be longer or shorter."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", bare).casefold())


def near(text: str, folded_index: int) -> int:
    """Return about where in `text` lies what is at `folded_index` of its folded form."""
    if text.isascii():
        return folded_index
    num_folded = 0
    for start in range(0, len(text), _CHUNK_CHARS):
        chunk = text[start : start + _CHUNK_CHARS]
        num_chunk = len(fold(chunk))
        if num_folded + num_chunk > folded_index:
            return start + (folded_index - num_folded) * len(chunk) // num_chunk
        num_folded += num_chunk
    return len(text)


def folded_with_origins(text: str) -> tuple[str, Sequence[int]]:
    """Fold a short text; the numbers are each folded character's origin, and the text's end."""
    if text.isascii():
        return text.lower(), range(len(text) + 1)
    folded: list[str] = []
    origins: list[int] = []
    for start, cluster in _clusters(text):
        piece = fold(cluster)
        folded.append(piece)
        origins += [start] * len(piece)
    return "".join(folded), [*origins, len(text)]


def _clusters(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or not (
            unicodedata.combining(text[index]) or _MELTS.match(text[index])
        ):
            yield start, text[start:index]
            start = index
