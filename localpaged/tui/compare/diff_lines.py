"""Two answers as one text: what both have, what one of them has alone, where they part first."""

from __future__ import annotations

from localpaged.chat.differences import FirstDifference, Piece, Side
from localpaged.plain_text import visible
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import STRIKE, STRONG, UNDERLINE, Role, Run


def first_runs(first: FirstDifference) -> list[Run]:
    """Where two answers part, counted from 1."""
    parts = [f"word {grouped(first.num_words + 1)}"]
    if first.num_tokens is not None:
        parts.insert(0, f"token {grouped(first.num_tokens + 1)}")
    return [Run(f"first differs at {', '.join(parts)}", Role.WARNING)]


def legend_runs(left: str, right: str) -> list[Run]:
    """Which look means which answer."""
    return [
        Run("only in ", Role.DIM),
        Run(left, Role.ERROR, STRIKE),
        Run("   only in ", Role.DIM),
        Run(right, Role.SUCCESS, UNDERLINE),
    ]


def diff_runs(pieces: list[Piece], glyphs: Glyphs) -> list[Run]:
    """The text of both; a mark stands before the first difference."""
    looks = {
        Side.BOTH: (Role.TEXT, 0),
        Side.LEFT: (Role.ERROR, STRIKE),
        Side.RIGHT: (Role.SUCCESS, UNDERLINE),
    }
    runs: list[Run] = []
    is_marked = False
    for piece in pieces:
        if piece.side is not Side.BOTH and not is_marked:
            is_marked = True
            runs.append(Run(glyphs.folded, Role.WARNING, STRONG))
        runs.append(Run(visible(piece.text, multiline=True), *looks[piece.side]))
    return runs
