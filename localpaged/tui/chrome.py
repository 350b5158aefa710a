"""What the lines around the transcript say, as runs: made from models, drawn by widgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible
from localpaged.tui.context_use import context_use
from localpaged.tui.figures import byte_size, compact, grouped, percent, rate
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.hint_line import GAP, fitted_runs, hint_of
from localpaged.tui.keys import footer_actions, key_of
from localpaged.tui.limits import is_limited
from localpaged.tui.markdown.line import STRONG, Line, Role, Run, indent
from localpaged.tui.markdown.wrap import wrap_runs
from localpaged.tui.paint import cells_of
from localpaged.tui.session import SessionModel
from localpaged.tui.transcript.status import Moment, spinner
from localpaged.tui.widgets.kv_bar import kv_runs
from localpaged.tui.workspace import EngineStatus

if TYPE_CHECKING:
    from localpaged.engine.events import LoadEvent

PRODUCT = "localpaged"
LOAD_BAR_CELLS = 16
BRIEF_CELLS = 56
"""With less room a chat's title matters more than the tokens of its context, a key than a count."""
CONTEXT_WARNING, CONTEXT_ALARM = 0.75, 0.90


def model_runs(engine: EngineStatus, glyphs: Glyphs, *, chosen: str = "") -> list[Run]:
    """The product, the model that answers, the chosen one or the default, and who else may ask."""
    runs = [Run(PRODUCT, Role.ACCENT, STRONG)]
    if engine.failure is not None:
        return [*runs, Run("  no model", Role.ERROR)]
    if engine.ready is None:
        return [*runs, Run("  loading the model", Role.DIM), *_serving_runs(engine)]
    ready = engine.ready_of(chosen)
    if chosen and ready is engine.ready and chosen != engine.ready.model_name:
        return [*runs, Run(f"  {visible(chosen)}", Role.TEXT), Run("  not loaded yet", Role.FAINT)]
    assert ready is not None, "the default model is there"
    # an endpoint that is named by its address says in its name where it is
    device = "" if ready.is_endpoint and ready.device in ready.model_name else ready.device
    details = f" {glyphs.dot} ".join(visible(part) for part in (device, ready.dtype) if part)
    return [
        *runs,
        Run(f"  {visible(ready.model_name)}", Role.TEXT),
        *_serving_runs(engine),  # where room is short what computes matters less
        Run(f"  {details}", Role.FAINT),
    ]


def top_runs(
    engine: EngineStatus,
    snapshot: EngineSnapshot,
    glyphs: Glyphs,
    cells: int,
    *,
    chosen: str = "",
) -> tuple[list[Run], list[Run]]:
    """The top line: model at the left, its KV pool at the right."""
    left = model_runs(engine, glyphs, chosen=chosen)
    if engine.ready is None or engine.failure is not None:
        return left, []
    # the model's name may shrink to make room for the pool, but not away
    return left, kv_runs(snapshot, glyphs, max(cells - cells_of(left) - 2, cells // 2))


def title_runs(
    session: SessionModel,
    engine: EngineStatus,
    *,
    position: tuple[int, int] | None,
    cells: int,
) -> tuple[list[Run], list[Run]]:
    """The chat's title, its place among the chats where no list shows it, its context."""
    left = [Run(visible(session.title), Role.TEXT, STRONG)]
    if position is not None:
        left.insert(0, Run(f"{position[0]}/{position[1]}  ", Role.FAINT))
    return left, context_runs(session, engine, is_brief=cells < BRIEF_CELLS)


def context_runs(
    session: SessionModel, engine: EngineStatus, *, is_brief: bool = False
) -> list[Run]:
    """How much of the model's context the chat fills."""
    use = context_use(session, engine)
    if use is None:
        return []
    role = Role.DIM
    if use.share >= CONTEXT_WARNING:
        role = Role.ERROR if use.share >= CONTEXT_ALARM else Role.WARNING
    used, limit = compact(use.used), compact(use.limit)
    tokens = "" if is_brief else f"{used} of {limit}  "
    over = use.used - use.limit
    share = f"{grouped(over)} too many" if over > 0 else percent(use.used, use.limit)
    return [Run(f"context {tokens}{share}", role)]


def warning_runs(session: SessionModel, engine: EngineStatus, glyphs: Glyphs) -> list[Run]:
    """Said before the context is full, while there is room to choose."""
    use = context_use(session, engine)
    if use is None or use.share < CONTEXT_ALARM:
        return []
    left = max(0, use.limit - use.used)
    return [
        Run(f"{glyphs.error} ", Role.WARNING),
        Run(f"{grouped(left)} tokens of context left  ", Role.WARNING),
        Run("/context shows the ways on", Role.DIM),
    ]


def load_runs(stage: LoadEvent | None, glyphs: Glyphs, frame: int) -> list[Run]:
    """The stage of loading, with bytes or counts where it has any."""
    runs = [Run(f"{spinner(glyphs, frame)} ", Role.ACCENT)]
    if stage is None:
        return [*runs, Run("starting the engine", Role.DIM)]
    runs.append(Run(visible(stage.stage), Role.DIM))
    if stage.total:
        done = min(LOAD_BAR_CELLS, stage.done * LOAD_BAR_CELLS // stage.total)
        runs += [
            Run("  "),
            Run(glyphs.bar_held * done, Role.ACCENT),
            Run(glyphs.bar_free * (LOAD_BAR_CELLS - done), Role.FAINT),
        ]
    return [*runs, Run(f"  {_amount(stage)}".rstrip(), Role.DIM)]


def state_runs(
    engine: EngineStatus, others: Sequence[SessionModel], glyphs: Glyphs, moment: Moment
) -> list[Run]:
    """The line above the prompt: loading, trouble with saving, what runs elsewhere."""
    if engine.ready is None and engine.failure is None:
        return load_runs(engine.stage, glyphs, moment.frame)
    if engine.saving_failure is not None:
        return [
            Run(f"{glyphs.error} ", Role.WARNING),
            Run(f"Not saved at the moment: {visible(engine.saving_failure.message)}", Role.WARNING),
        ]
    for name, stage in engine.stages.items():
        return [*load_runs(stage, glyphs, moment.frame), Run(f"  {visible(name)}", Role.DIM)]
    if others:
        chats = "1 other chat" if len(others) == 1 else f"{len(others)} other chats"
        return [
            Run(f"{spinner(glyphs, moment.frame)} ", Role.ACCENT),
            Run(f"{chats} generating", Role.DIM),
        ]
    return []


def below_runs(unseen_lines: int | None, glyphs: Glyphs) -> list[Run]:
    """How much lies below the view; nothing while the newest line is followed."""
    if unseen_lines is None:
        return []
    lines = "1 line" if unseen_lines == 1 else f"{grouped(unseen_lines)} lines"
    return [Run(f"{glyphs.newer} {lines} below ", Role.ACCENT), Run(key_of("newest"), Role.DIM)]


def failure_lines(error: LocalPagedError, glyphs: Glyphs, cells: int) -> list[Line]:
    """Message and hint of what left the app without a model."""
    room = max(1, cells - 2)
    message = wrap_runs([Run(visible(error.message), Role.ERROR)], room)
    hint = wrap_runs([Run(visible(error.hint), Role.DIM)], room) if error.hint else []
    return indent([*message, *hint], Run(f"{glyphs.error} ", Role.ERROR, STRONG), Run("  "))


def hint_runs(
    snapshot: EngineSnapshot,
    *,
    focus: str,
    num_running: int,
    can_stop: bool,
    cells: int,
    is_endpoint: bool = False,
) -> tuple[list[Run], list[Run]]:
    """The bottom line: the keys that matter most, as many as fit; the speed of all chats."""
    right: list[Run] = []
    if num_running and snapshot.decode_tokens_per_s:
        chats = "1 chat" if num_running == 1 else f"{num_running} chats"
        right = [Run(rate(snapshot.decode_tokens_per_s), Role.TEXT)]
        if cells >= BRIEF_CELLS:
            right.append(Run(f"  {chats}", Role.FAINT))
    # the two stand a few cells apart
    room = cells - cells_of(right) - (len(GAP) if right else 0)
    told = (action for action in footer_actions(focus) if action.id != "stop" or can_stop)
    hints = (hint_of(a, is_off=is_endpoint and is_limited(a.id)) for a in told)
    return fitted_runs(hints, room), right


def placeholder(engine: EngineStatus, session: SessionModel) -> str:
    """What the empty prompt says."""
    if engine.failure is not None:
        return "There is no model to answer; what you write is kept"
    if engine.ready is None:
        return "You can write already: it is answered once the model is loaded"
    if session.open_answer is not None:
        return "Write the next message: it waits for this answer"
    return "Ask anything"


def _serving_runs(engine: EngineStatus) -> list[Run]:
    return [Run(f"  serves {visible(engine.serving)}", Role.DIM)] if engine.serving else []


def _amount(stage: LoadEvent) -> str:
    if not stage.total:
        return ""
    if stage.unit == "bytes":
        return f"{byte_size(stage.done)} of {byte_size(stage.total)}"
    return f"{grouped(stage.done)} of {grouped(stage.total)} {visible(stage.unit)}".rstrip()
