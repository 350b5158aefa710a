"""How an application looks at its start: the theme that was chosen, and no colours at all."""

from __future__ import annotations

from collections.abc import Sequence

from textual.filter import LineFilter, Monochrome, NoColor

from localpaged.tui.preferences import saved_theme
from localpaged.tui.theme import PLAIN, known_theme


def first_theme(of_file: str, usual: str, *, has_colours: bool) -> str:
    """Return the theme of the config file, else the one chosen last, else what is usual."""
    if not has_colours:
        return PLAIN
    return known_theme(of_file) or known_theme(saved_theme()) or usual


def without_greys(filters: Sequence[LineFilter]) -> list[LineFilter]:
    """Return the filters of an application that shows no colours: greys are colours, too.

    What is marked is marked by other means.
    """
    return [NoColor() if isinstance(each, Monochrome) else each for each in filters]
