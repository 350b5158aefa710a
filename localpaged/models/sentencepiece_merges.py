"""Merge rules for SentencePiece vocabularies, which store a score for every piece instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def sentencepiece_merges(ids: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Return the merges, best first, that build the pieces of `ids` (text to id).

    A piece can be made from every two pieces that it consists of; the higher its score, the
    earlier. Of one piece's merges that of the lower ids, the commoner parts, comes first.
    """
    merges = []
    for piece, id_ in ids.items():
        rank = -scores[id_]
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                merges.append((rank, ids[left], ids[right], left, right))
    merges.sort()
    return [(left, right) for _, _, _, left, right in merges]
