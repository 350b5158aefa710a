"""The classes of blocks as they are drawn: each has a word, a colour, and glyphs of its own."""

from __future__ import annotations

from typing import NamedTuple

from localpaged.tui.stats.ink import Shade
from localpaged.tui.stats.plots import Pen

BAR = "▄"
"""Bars are half a row high, so that those below each other do not touch."""


class BlockClass(NamedTuple):
    """A class of blocks. Where there are no colours, its glyph tells it apart."""

    word: str
    plain: str
    ascii: str
    shade: Shade

    def glyph(self, pen: Pen) -> str:
        """Return what a stretch of it is drawn with."""
        return self.ascii if pen.is_ascii else self.plain

    def mark(self, pen: Pen) -> str:
        """Return what stands before its word: what is drawn, where colours do not tell."""
        is_told = pen.has_colours and not pen.is_ascii and self.word != FREE.word
        return "█" if is_told else self.glyph(pen)


ACTIVE = BlockClass("active", "█", "#", Shade("held"))
PINNED = BlockClass("pinned", "▓", "P", Shade("pinned"))
CACHED = BlockClass("cached", "▒", "=", Shade("cached"))
FREE = BlockClass("free", "·", ".", Shade("other"))
CLASSES = (ACTIVE, PINNED, CACHED, FREE)


def bar_glyph(glyph: str, pen: Pen) -> str:
    """Return what a bar is drawn with: one glyph for all classes where colours tell them apart."""
    return BAR if pen.has_colours and not pen.is_ascii else glyph
