"""The bottom line of a screen: its keys in their order, the least important left out first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from localpaged.tui.keys import BY_ID, Action, key_of
from localpaged.tui.markdown.line import Role, Run
from localpaged.tui.paint import cells_of

FIRST, SOON, LATER = range(3)
GAP = "   "
# the way to all other keys is told however little room there is, then what ends something
_RANKS = {"help": FIRST, "stop": FIRST, "compare_back": FIRST, "palette": SOON}


@dataclass(frozen=True, slots=True)
class Hint:
    """A key and what it does, in a word. What has a lower `rank` gets room before the others."""

    key: str
    word: str
    rank: int = LATER
    is_off: bool = False


def hint_of(action: Action, *, is_off: bool = False) -> Hint:
    """What the bottom line tells of an action; faint when it cannot be done now."""
    return Hint(action.shown, action.footer, _RANKS.get(action.id, LATER), is_off)


def help_hint() -> Hint:
    """The key that opens the help, on every screen."""
    return Hint(key_of("help"), BY_ID["help"].footer, FIRST)


def fitted_runs(hints: Iterable[Hint], cells: int) -> list[Run]:
    """As many hints as fit, in their order; those of a lower rank are taken first."""
    hints = list(hints)
    taken: set[int] = set()
    left = cells
    for place in sorted(range(len(hints)), key=lambda place: hints[place].rank):
        needed = cells_of(_runs(hints[place])) + (len(GAP) if taken else 0)
        if needed <= left:
            taken.add(place)
            left -= needed
    runs: list[Run] = []
    for place in sorted(taken):
        runs += [*([Run(GAP)] if runs else []), *_runs(hints[place])]
    return runs


def _runs(hint: Hint) -> list[Run]:
    return [
        Run(hint.key, Role.FAINT if hint.is_off else Role.TEXT),
        Run(f" {hint.word}", Role.FAINT),
    ]
