"""What the blocks screen says of itself: its keys, its two parts, why there is nothing to see."""

from __future__ import annotations

from localpaged.plain_text import visible
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.hint_line import SOON, Hint, fitted_runs, help_hint
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.memory.views import View
from localpaged.tui.workspace import EngineStatus


def hint_runs(view: View, cells: int, *, has_models: bool, is_there: bool = True) -> list[Run]:
    """The keys, and what the colours tell at the moment; without memory the way back alone."""
    keys = [
        Hint("m", f"by {view}"),
        Hint("Tab", "part"),
        Hint("p", "pin"),
        Hint("x", "evict"),
        Hint("Enter", "chat"),
        *([Hint("o", "other model")] if has_models else []),
    ]
    return fitted_runs([*(keys if is_there else []), Hint("Esc", "back", SOON), help_hint()], cells)


def tab_runs(*, is_tree: bool, glyphs: Glyphs) -> tuple[list[Run], list[Run]]:
    """The two parts of a small screen, the shown one marked."""

    def tab(word: str, is_shown: bool) -> list[Run]:
        mark = glyphs.prompt if is_shown else " "
        role, marks = (Role.USER, STRONG) if is_shown else (Role.FAINT, 0)
        return [Run(f"{mark} ", Role.ACCENT), Run(f"{word}   ", role, marks)]

    return [*tab("Map", not is_tree), *tab("Prefix tree", is_tree)], [Run("Tab", Role.DIM)]


def nothing_runs(engine: EngineStatus, glyphs: Glyphs) -> list[Run]:
    """Why there is no memory to look at."""
    if engine.failure is not None:
        return [
            Run(f"{glyphs.error} ", Role.ERROR),
            Run("There is no model, so there is no KV memory: ", Role.TEXT),
            Run(visible(engine.failure.message), Role.DIM),
        ]
    return [Run("The model is still loading. Its KV memory appears here.", Role.DIM)]
