"""The colours of the block map: on a dark ground, on a light one, and the terminal's own."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from localpaged.tui.memory.views import DIM

if TYPE_CHECKING:
    from textual.theme import Theme


DIM_PART = 0.6


class Palette(Enum):
    """Which set of colours goes with the theme."""

    DARK = "dark"
    LIGHT = "light"
    ANSI = "ansi"


_DARK = {
    "free": "#1f242d",
    "held": "#7fb0e8",
    "cached": "#3f5a7a",
    "going": "#7a4a4d",
    "pinned": "#e0b26c",
    "several": "#cfd4dd",
    "other": "#6f7889",
    "heat0": "#33506b",
    "heat1": "#4f86ad",
    "heat2": "#69b3a2",
    "heat3": "#d9b45f",
    "heat4": "#e88388",
    "chat0": "#7fb0e8",
    "chat1": "#e3b17a",
    "chat2": "#97c28a",
    "chat3": "#bba2e6",
    "chat4": "#e88388",
    "chat5": "#7cc4bd",
    "chat6": "#d6cf7a",
    "chat7": "#d792c3",
    "cursor": "#ffffff",
}
_LIGHT = {
    "free": "#e4e7ec",
    "held": "#2563b8",
    "cached": "#9db8d9",
    "going": "#e3aaa6",
    "pinned": "#c07a10",
    "several": "#2b3138",
    "other": "#8b94a1",
    "heat0": "#b3c7de",
    "heat1": "#6f9cc7",
    "heat2": "#3d9482",
    "heat3": "#c98a12",
    "heat4": "#b3261e",
    "chat0": "#2563b8",
    "chat1": "#a35200",
    "chat2": "#2f7a3c",
    "chat3": "#7a3fb4",
    "chat4": "#b3261e",
    "chat5": "#0b7a75",
    "chat6": "#85790a",
    "chat7": "#a8358a",
    "cursor": "#000000",
}
_ANSI = {
    "free": "bright_black",
    "held": "bright_blue",
    "cached": "cyan",
    "going": "magenta",
    "pinned": "yellow",
    "several": "white",
    "other": "bright_black",
    "heat0": "blue",
    "heat1": "cyan",
    "heat2": "green",
    "heat3": "yellow",
    "heat4": "red",
    "chat0": "bright_blue",
    "chat1": "yellow",
    "chat2": "green",
    "chat3": "magenta",
    "chat4": "red",
    "chat5": "cyan",
    "chat6": "bright_yellow",
    "chat7": "bright_magenta",
    "cursor": "bright_white",
}
_COLOURS = {Palette.DARK: _DARK, Palette.LIGHT: _LIGHT, Palette.ANSI: _ANSI}


def palette_of(theme: Theme) -> Palette:
    """Return the set of colours that goes with a theme."""
    if theme.ansi:
        return Palette.ANSI
    return Palette.DARK if theme.dark else Palette.LIGHT


def rich_colour(paint: str, palette: Palette) -> str:
    """Return the colour of a class as Rich names it."""
    colours = _COLOURS[palette]
    bright = colours[paint.removesuffix(DIM)]
    return bright if not paint.endswith(DIM) else shaded(bright, palette, DIM_PART)


def shaded(colour: str, palette: Palette, part: float) -> str:
    """Return what lies `part` of the way from the colour of free blocks to another one."""
    # the terminal's own sixteen colours have nothing in between
    if palette is Palette.ANSI:
        return colour
    return _mixed(colour, _COLOURS[palette]["free"], part)


def textual_colour(paint: str, palette: Palette) -> str:
    """Return the colour of a class as Textual names it."""
    colour = rich_colour(paint, palette)
    return f"ansi_{colour}" if palette is Palette.ANSI else colour


def _mixed(colour: str, ground: str, part: float) -> str:
    """Return what lies between two colours, #rrggbb each: `part` of the first."""
    parts = [(int(colour[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{int(part * a + (1 - part) * b):02x}" for a, b in parts)
