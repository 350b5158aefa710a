"""How two answers differ: word by word, and where the first difference is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from localpaged.store.rows import Turn
from localpaged.store.token_ids import unpack

MAX_PAIRS = 4_000_000
"""Words of one text times words of the other that are compared; beyond, all of them differ."""
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


class Side(StrEnum):
    """Which of two texts a piece is in."""

    BOTH = "both"
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words that both texts have, or one of them alone."""

    side: Side
    text: str


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two answers part: after so many equal characters, words and tokens.

    `num_tokens` is None when the answers were not made by one model, or their ids are not known.
    """

    num_chars: int
    num_words: int
    num_tokens: int | None


def word_diff(left: str, right: str) -> Sequence[Piece]:
    """Return both texts as one: what they share once, what they do not one after the other."""
    old, new = _WORDS.findall(left), _WORDS.findall(right)
    start = _num_common(old, new)
    room = min(len(old), len(new)) - start
    end = min(room, _num_common(old[::-1], new[::-1]))
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    pieces = [Piece(Side.BOTH, "".join(old[:start]))]
    if len(middle_old) * len(middle_new) > MAX_PAIRS:
        pieces += [Piece(Side.LEFT, "".join(middle_old)), Piece(Side.RIGHT, "".join(middle_new))]
    else:
        matcher = difflib.SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
            if tag == "equal":
                pieces.append(Piece(Side.BOTH, "".join(middle_old[old_from:old_to])))
                continue
            pieces.append(Piece(Side.LEFT, "".join(middle_old[old_from:old_to])))
            pieces.append(Piece(Side.RIGHT, "".join(middle_new[new_from:new_to])))
    pieces.append(Piece(Side.BOTH, "".join(old[len(old) - end :])))
    return [piece for piece in pieces if piece.text]


def first_difference(
    left: str, right: str, *, turns: tuple[Turn, Turn] | None = None
) -> FirstDifference | None:
    """Return where two texts part; None when they are equal. `turns` made them."""
    if left == right:
        return None
    num_words = _num_common(_WORDS.findall(left), _WORDS.findall(right))
    common = _WORDS.findall(left)[:num_words]
    return FirstDifference(
        num_chars=_num_common(left, right),
        num_words=sum(not word.isspace() for word in common),
        num_tokens=None if turns is None else _num_common_tokens(*turns),
    )


def _num_common_tokens(left: Turn, right: Turn) -> int | None:
    if not left.token_ids or not right.token_ids or left.model_fingerprint is None:
        return None
    if (left.model, left.model_fingerprint) != (right.model, right.model_fingerprint):
        return None
    return _num_common(unpack(left.token_ids), unpack(right.token_ids))


def _num_common(left: Sequence[object], right: Sequence[object]) -> int:
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return next(n for n in range(shorter) if left[n] != right[n])
