"""The lines around the dashboard: what is looked at and since when, its views, its keys."""

from __future__ import annotations

from dataclasses import replace

from localpaged.plain_text import visible
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.hint_line import fitted_runs
from localpaged.tui.markdown.line import STRONG, Line, Role, Run
from localpaged.tui.markdown.wrap import wrap_runs
from localpaged.tui.paint import cells_of
from localpaged.tui.stats.ink import InkLine, inks_of
from localpaged.tui.stats.keys import hints_of, way_out
from localpaged.tui.stats.watch import Watch

PRODUCT = "localpaged stats"
VIEWS = ("overview", "chats", "map", "tree")
NO_ENGINE = "No engine is running."
HOW_TO_START = "Open a chat in another terminal, and it appears here:"
START_COMMAND = "localpaged chat"

Pair = tuple[list[Run], list[Run]]


def top_runs(watch: Watch, glyphs: Glyphs, cells: int, *, now_s: float) -> Pair:
    """The model that is looked at; the program it is in and how fresh the picture is."""
    left = [Run(PRODUCT, Role.ACCENT, STRONG)]
    if watch.snapshot is None:
        return left, _every(watch)
    left.append(
        Run(f"  {_loading(watch)}", Role.DIM)
        if watch.model is None
        else Run(f"  {visible(watch.model.name)}")
    )
    computing, device = _computing(watch, glyphs)
    state = _state(watch, glyphs, now_s=now_s)
    program = watch.snapshot.program
    up_s = watch.snapshot.taken_at - program.started_at
    dot = Run(f" {glyphs.dot} ", Role.FAINT)
    about = [
        *state,
        dot,
        Run(f"{visible(program.command)} {program.pid}", Role.DIM),
        dot,
        Run(f"up {clock_time(up_s)}", Role.DIM),
    ]
    whole = [*about, dot, *_every(watch)]
    # where room is short the program matters more than the numbers that are computed with
    for details, right in ((computing, whole), (computing, about), (device, about), ([], about)):
        if cells_of([*left, *details, *right]) + 2 <= cells:
            return [*left, *(details or device)], right
    return [*left, *device], state


def _computing(watch: Watch, glyphs: Glyphs) -> Pair:
    """What the model is computed by and in which numbers, and the same without these."""
    if watch.model is None:
        return [], []
    device, dtype = visible(watch.model.device), visible(watch.model.dtype)
    both = f" {glyphs.dot} ".join(part for part in (device, dtype) if part)
    return [Run(f"  {both}", Role.FAINT)], [Run(f"  {device}", Role.FAINT)]


def _state(watch: Watch, glyphs: Glyphs, *, now_s: float) -> list[Run]:
    if watch.ended_at is not None:
        ago = max(0.0, now_s - watch.ended_at)
        return [Run(f"{glyphs.stopped} ended {ago_words(ago)}", Role.WARNING, STRONG)]
    if watch.failure is not None:
        return [Run(f"{glyphs.error} no answer", Role.ERROR, STRONG)]
    if watch.is_paused:
        return [Run(f"{glyphs.interrupted} paused", Role.WARNING, STRONG)]
    return [Run(f"{glyphs.unread} live", Role.SUCCESS)]


def _every(watch: Watch) -> list[Run]:
    return [Run(f"every {watch.interval_s:g} s", Role.FAINT)]


def _loading(watch: Watch) -> str:
    names = watch.snapshot.loading if watch.snapshot is not None else ()
    return f"loading {visible(names[0])}" if names else "no model is loaded"


def tab_runs(watch: Watch, view: str, glyphs: Glyphs, cells: int) -> Pair:
    """The views, the shown one marked; the place among several engines and models."""
    left: list[Run] = []
    for name in VIEWS:
        is_shown = name == view
        mark = glyphs.prompt if is_shown else " "
        role, marks = (Role.USER, STRONG) if is_shown else (Role.FAINT, 0)
        left += [Run(f"{mark} ", Role.ACCENT), Run(f"{name.capitalize()}  ", role, marks)]
    right: list[Run] = []
    at, count = watch.place
    model_at, models = watch.model_place
    if models > 1:
        right.append(Run(f"model {model_at} of {models}  ", Role.TEXT))
    if count > 1:
        right.append(Run(f"engine {at} of {count}  " if at else f"{count} engines  ", Role.TEXT))
    elif count == 1 and not at:
        right.append(Run("another engine runs  ", Role.TEXT))
    if right:
        right.append(Run("e", Role.DIM))
    return left, right if cells_of([*left, *right]) < cells else right[:-1]


def view_at(x: int) -> str | None:
    """Return the view whose name is drawn at a place of the line of views."""
    end = 0
    for name in VIEWS:
        end += len(name) + 4
        if x < end:
            return name if x >= 0 else None
    return None


def nothing_lines(watch: Watch, glyphs: Glyphs, cells: int) -> list[InkLine]:
    """Why there is nothing to see, and what to do about it."""
    return [inks_of((*line.prefix, *line.runs)) for line in _nothing_lines(watch, glyphs, cells)]


def _nothing_lines(watch: Watch, glyphs: Glyphs, cells: int) -> list[Line]:
    if watch.failure is not None:
        runs = [Run(f"{glyphs.error} ", Role.ERROR, STRONG), Run(visible(watch.failure.message))]
        lines = wrap_runs(runs, cells)
        hint = visible(watch.failure.hint)
        return [*lines, *wrap_runs([Run(hint, Role.DIM)], cells)] if hint else lines
    if watch.snapshot is not None:
        return wrap_runs([Run(f"The program is there: {_loading(watch)}.", Role.DIM)], cells)
    return [
        *wrap_runs([Run(NO_ENGINE, Role.USER, STRONG)], cells),
        Line(),
        *wrap_runs([Run(HOW_TO_START, Role.DIM)], cells),
        Line((Run(f"  {START_COMMAND}", Role.ACCENT),)),
        Line(),
        *wrap_runs([Run("This screen waits for it. ", Role.FAINT)], cells),
    ]


def hint_runs(watch: Watch, view: str, cells: int, *, out: str = "quit") -> list[Run]:
    """The keys that matter in a view, as many as fit; without a picture the way out alone.

    `out` is the word for leaving.
    """
    hints = way_out()
    if watch.model is not None:
        hints = hints_of(view, has_others=watch.has_others, is_paused=watch.is_paused)
    return fitted_runs([*hints[:-1], replace(hints[-1], word=out)], cells)


def clock_time(seconds: float) -> str:
    """2467 -> 41:07, 9000 -> 2:30:00."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def ago_words(seconds: float) -> str:
    """12.3 -> 12 s ago, 200 -> 3 min ago."""
    if seconds < 60:
        return f"{int(seconds)} s ago"
    if seconds < 3_600:
        return f"{int(seconds // 60)} min ago"
    return f"{grouped(int(seconds // 3_600))} h ago"


def span_words(seconds: int) -> str:
    """100 -> 1:40 min, 45 -> 45 s, 120 -> 2 min."""
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}:{rest:02} min" if rest else f"{minutes} min"
