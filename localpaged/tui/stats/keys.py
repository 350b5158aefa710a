"""The one table of the dashboard's keys: bindings, bottom line and help come from it."""

from __future__ import annotations

from dataclasses import replace

from localpaged.tui.hint_line import FIRST, LATER, SOON, Hint
from localpaged.tui.keys import Action

VIEWS = "Views"
TIME = "Time"
TABLE = "Chats, map and tree"
ENGINES = "Engines"
PROGRAM = "Dashboard"
GROUPS = (VIEWS, TIME, TABLE, ENGINES, PROGRAM)

KEYS = (
    Action("overview", "Curves and chats", VIEWS, "o Esc", "o,escape,1", footer="overview"),
    Action("chats", "All chats", VIEWS, "c", "c,2", footer="chats"),
    Action("map", "Block map", VIEWS, "m", "m,3", footer="map"),
    Action("tree", "Prefix tree", VIEWS, "t", "t,4", footer="tree"),
    Action("next_view", "Next view", VIEWS, "Tab", "tab"),
    Action("previous_view", "View before", VIEWS, "Shift+Tab", "shift+tab"),
    Action("pause", "Hold the picture, or go on", TIME, "Space", "space", footer="pause"),
    Action("slower", "Look less often", TIME, "-", "minus,underscore"),
    Action("faster", "Look more often", TIME, "+", "plus,equals_sign"),
    Action("zoom", "Longer curves, then short again", TIME, "z", "z", footer="zoom"),
    Action("sort", "Sort by the next column", TABLE, "s", "s", footer="sort"),
    Action("reverse", "Sort the other way round", TABLE, "r", "r"),
    Action("colours", "Colours: state, chat, refs, age", TABLE, "v", "v", footer="colours"),
    Action("move", "Row, block or branch", TABLE, "j k Up Down g G"),
    Action("engine", "Next engine or model", ENGINES, "e", "e", footer="next engine"),
    Action("engine_before", "Engine or model before", ENGINES, "E", "E"),
    Action("copy", "Copy the picture as JSON", PROGRAM, "y", "y", footer="copy"),
    Action("help", "Help", PROGRAM, "F1 ?", "f1,question_mark", footer="help"),
    Action("quit", "Quit", PROGRAM, "q ^C", "q,ctrl+c,ctrl+q", footer="quit"),
)
BY_ID = {action.id: action for action in KEYS}
# a letter is its own hint: the bottom line tells one key of several
_SHORT = {"overview": "o", "help": "F1", "quit": "q"}
_RANKS = {"help": FIRST, "quit": FIRST, "pause": SOON}
_OF_VIEW = {
    "overview": ("chats", "map", "tree", "pause", "zoom", "sort"),
    "chats": ("overview", "map", "tree", "pause", "sort"),
    "map": ("overview", "chats", "tree", "pause", "colours"),
    "tree": ("overview", "chats", "map", "pause", "colours"),
}


def hints_of(view: str, *, has_others: bool, is_paused: bool) -> list[Hint]:
    """What the bottom line tells in a view, the least important last."""
    names = [*_OF_VIEW[view], *(["engine"] if has_others else []), "copy", "help", "quit"]
    hints = {name: _hint(name) for name in names}
    if is_paused:
        hints["pause"] = replace(hints["pause"], word="go on")
    return list(hints.values())


def way_out() -> list[Hint]:
    """What the bottom line tells while there is nothing to look at."""
    return [_hint("help"), _hint("quit")]


def _hint(name: str) -> Hint:
    action = BY_ID[name]
    return Hint(_SHORT.get(name, action.usual), action.footer, _RANKS.get(name, LATER))
