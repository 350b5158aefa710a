"""Two answers as one text: what both have, what one of them has alone, where they part first."""

from __future__ import annotations

from localpaged.chat.differences import FirstDifference, Piece, Side
from localpaged.plain_text import visible
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import STRIKE, STRONG, UNDERLINE, Role, Run

_MARKS = {Side.BOTH: ("", ""), Side.LEFT: ("[-", "-]"), Side.RIGHT: ("{+", "+}")}
"""What stands around words where no look tells whose they are."""


def first_runs(first: FirstDifference) -> list[Run]:
    """Where two answers part, counted from 1."""
    parts = [f"word {grouped(first.num_words + 1)}"]
    if first.num_tokens is not None:
        parts.insert(0, f"token {grouped(first.num_tokens + 1)}")
    return [Run(f"first differs at {', '.join(parts)}", Role.WARNING)]


def legend_runs(left: str, right: str, *, has_marks: bool = False) -> list[Run]:
    """Which look means which answer."""
    return [
        Run("only in ", Role.DIM),
        Run(_marked(left, Side.LEFT, has_marks), Role.ERROR, STRIKE),
        Run("   only in ", Role.DIM),
        Run(_marked(right, Side.RIGHT, has_marks), Role.SUCCESS, UNDERLINE),
    ]


def diff_runs(pieces: list[Piece], glyphs: Glyphs, *, has_marks: bool = False) -> list[Run]:
    """The text of both; a mark stands before the first difference.

    With `has_marks` brackets, too, tell whose words are whose: for terminals without looks.
    """
    looks = {
        Side.BOTH: (Role.TEXT, 0),
        Side.LEFT: (Role.ERROR, STRIKE),
        Side.RIGHT: (Role.SUCCESS, UNDERLINE),
    }
    runs: list[Run] = []
    is_marked = False
    before = Piece(Side.BOTH, "")
    for piece in pieces:
        if piece.side is not Side.BOTH and not is_marked:
            is_marked = True
            runs.append(Run(glyphs.folded, Role.WARNING, STRONG))
        if before.side is Side.LEFT and piece.side is Side.RIGHT:
            is_apart = before.text[-1:].isspace() or piece.text[:1].isspace()
            runs += [] if is_apart and not has_marks else [Run(" ")]
        text = _marked(visible(piece.text, multiline=True), piece.side, has_marks)
        runs.append(Run(text, *looks[piece.side]))
        before = piece
    return runs


def _marked(text: str, side: Side, has_marks: bool) -> str:
    opening, closing = _MARKS[side]
    return f"{opening}{text}{closing}" if has_marks else text
