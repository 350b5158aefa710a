"""An answer's tokens in rows: every token is seen, a part of a character and a line end, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from localpaged.chat.token_view import ViewedToken
from localpaged.plain_text import visible
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.wrap import TAB_CELLS


class Piece(NamedTuple):
    """What of one token stands in a row; `is_mark`: a sign for what has no text of its own."""

    token: int
    text: str
    is_mark: bool = False


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Rows of pieces, and the row that each token begins in."""

    rows: tuple[tuple[Piece, ...], ...]
    first_rows: tuple[int, ...]

    def span(self, row: int, token: int) -> tuple[int, int] | None:
        """Where a token stands in a row, in characters; None where it does not."""
        start = end = position = 0
        for piece in self.rows[row]:
            if piece.token == token:
                start = position if end == 0 else start
                end = position + len(piece.text)
            position += len(piece.text)
        return (start, end) if end else None

    def token_at(self, row: int, cell: int) -> int | None:
        """The token at a cell of a row; the nearest one before it at the row's end."""
        if not 0 <= row < len(self.rows) or not self.rows[row]:
            return None
        used = 0
        for piece in self.rows[row]:
            used += cell_len(piece.text)
            if cell < used:
                return piece.token
        return self.rows[row][-1].token


def lay_out(tokens: Sequence[ViewedToken], width: int, glyphs: Glyphs) -> TokenRows:
    """Put tokens into rows of `width` cells, broken before a token where that is possible."""
    rows: list[list[Piece]] = [[]]
    first_rows: list[int] = []
    used = 0
    for number, token in enumerate(tokens):
        is_first = True
        for piece in _pieces(number, token, glyphs):
            for part in _parts(piece, width):
                cells = cell_len(part.text)
                if used + cells > width and used:
                    rows.append([])
                    used = 0
                if is_first:
                    first_rows.append(len(rows) - 1)
                    is_first = False
                rows[-1].append(part)
                used += cells
            if piece.is_mark and piece.text == glyphs.line_end:
                rows.append([])
                used = 0
    return TokenRows(tuple(map(tuple, rows)), tuple(first_rows))


def _pieces(number: int, token: ViewedToken, glyphs: Glyphs) -> list[Piece]:
    if not token.text:
        return [Piece(number, visible(token.label) or glyphs.ellipsis, is_mark=True)]
    pieces: list[Piece] = []
    for place, line in enumerate(visible(token.text, multiline=True).split("\n")):
        if place:
            pieces.append(Piece(number, glyphs.line_end, is_mark=True))
        if line:
            pieces.append(Piece(number, line.replace("\t", " " * TAB_CELLS)))
    return pieces


def _parts(piece: Piece, width: int) -> list[Piece]:
    if cell_len(piece.text) <= width:
        return [piece]
    return [piece._replace(text=text) for text in chop_cells(piece.text, max(1, width))]
