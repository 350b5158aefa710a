"""Borders, scrollbars, bullets and quotes where ASCII alone is shown; our glyphs have own twins."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_BOXES, _BLOCKS = range(0x2500, 0x2580), range(0x2580, 0x25A0)
# what crosses nothing is drawn as what it is, everything else of a box is a corner
_ACROSS, _DOWN = "─━┄┅┈┉╌╍═╴╶╸╺╼╾", "│┃┆┇┊┋╎╏║╵╷╹╻╽╿"
_LOW, _SHADES = "▁▂▃", {"░": ".", "▒": ":", "▓": "#"}
_BARS = "▌▍▎▏▐▕▊▋▉"
# signs of our texts, and of many a model's
_SIGNS = {"•": "*", "◦": "o", "▪": "-", "←": "<", "→": ">", "↑": "^", "↓": "v", "·": ".", "…": "~"}
_QUOTES = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "×": "x", "–": "-", "—": "-"}
TWINS = {
    **dict.fromkeys(_BOXES, "+"),
    **dict.fromkeys(_BLOCKS, "#"),
    **{ord(sign): "-" for sign in _ACROSS},
    **{ord(sign): "|" for sign in (*_DOWN, *_BARS)},
    **{ord(sign): "_" for sign in _LOW},
    **{ord(sign): twin for sign, twin in {**_SHADES, **_SIGNS, **_QUOTES}.items()},
}


class AsciiFilter(LineFilter):
    """Keeps the cells of every segment. What people and models wrote in letters stays."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with twins for all that draws boxes, and for common signs."""
        return [
            segment
            if segment.text.isascii()
            else Segment(segment.text.translate(TWINS), segment.style, segment.control)
            for segment in segments
        ]
