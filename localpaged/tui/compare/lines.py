"""What the lines of the compare screen say, as runs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from localpaged.chat.models import name_of as model_name_of
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.plain_text import visible
from localpaged.store.rows import TurnStatus
from localpaged.tui.compare.model import CompareModel, Pane
from localpaged.tui.figures import grouped, percent, rate
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.hint_line import Hint, fitted_runs, help_hint, hint_of
from localpaged.tui.keys import IN_COMPARE, actions_of, key_of
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.session import Answer
from localpaged.tui.transcript.status import Moment, spinner
from localpaged.tui.workspace import EngineStatus

BAR_CELLS = 8
WIDE_CELLS = 110
"""With less room the prompt matters more than where the messages before it are from."""
WHILE_RUNNING = ("compare_back", "compare_stop_others")


def head_runs(model: CompareModel, glyphs: Glyphs, *, cells: int) -> tuple[list[Run], list[Run]]:
    """The prompt at the left; how long it is and how often it was read at the right."""
    prompt = " ".join(model.compare.prompt.split())
    left = [Run("compare  ", Role.ACCENT, STRONG), Run(visible(prompt), Role.TEXT)]
    if model.num_before:
        place = " of the chat" if cells >= WIDE_CELLS else ""
        left.insert(1, Run(f"after {_count(model.num_before, 'message')}{place}  ", Role.DIM))
    parts = [*_prompt_parts(model.panes), _count(len(model.panes), "answer")]
    return left, [Run(f" {glyphs.dot} ".join(parts), Role.DIM)]


def _prompt_parts(panes: Sequence[Pane]) -> list[str]:
    """How many tokens the prompt has for each model, and whether it was read once."""
    by_model: dict[str, list[tuple[int, int]]] = {}
    for pane in panes:
        read = _read_tokens(pane.first)
        if read is not None:
            by_model.setdefault(pane.chat.model, []).append(read)
    if not by_model:
        return []
    lengths = " + ".join(grouped(reads[0][0]) for reads in by_model.values())
    # what fills no block cannot be shared
    is_once = all(
        sum(new > BLOCK_SIZE_TOKENS for _, new in reads) <= 1 for reads in by_model.values()
    )
    times = "read once" if is_once else f"{sum(map(len, by_model.values()))} times read"
    each = "each " if is_once and len(by_model) > 1 else ""
    return [f"prompt {lengths} tok, {each}{times}"]


def _read_tokens(answer: Answer | None) -> tuple[int, int] | None:
    """Return a prompt's tokens and how many of them were not cached, once that is known."""
    if answer is None or answer.turn.partial_text:
        return None  # who continued an answer had the engine read it as well
    prefill, usage = answer.prefill, answer.usage
    if prefill is not None and prefill.prompt_tokens:
        return prefill.prompt_tokens, prefill.prompt_tokens - prefill.cached_tokens
    if usage is not None and usage.prompt_tokens and usage.is_cache_told:
        return usage.prompt_tokens, usage.new_tokens
    return None


def name_of(pane: Pane, place: int, model: CompareModel, engine: EngineStatus) -> str:
    """What a pane is called: its model, or its number while nobody is to know."""
    if model.compare.is_blind:
        return f"answer {place + 1}"
    chosen = model_name_of(pane.chat.model)
    default = engine.ready.model_name if engine.ready is not None else "the default model"
    return visible(chosen or default)


def pane_head_runs(
    pane: Pane,
    place: int,
    model: CompareModel,
    engine: EngineStatus,
    glyphs: Glyphs,
    *,
    is_selected: bool,
) -> tuple[list[Run], list[Run]]:
    """The number and name of a pane, what it samples with; whether it is kept or voted for."""
    role = Role.ACCENT if is_selected else Role.DIM
    # what is selected must be seen without colours, too
    left = [
        Run(f"{glyphs.current if is_selected and len(model.panes) > 1 else ' '} ", role, STRONG),
        Run(f"{place + 1} ", role, STRONG),
        Run(name_of(pane, place, model, engine), Role.USER if is_selected else Role.TEXT),
    ]
    if not model.compare.is_blind:
        left.append(Run(f"  {_sampling(pane)}", Role.FAINT))
    marks = []
    if model.diff_from is pane:
        marks.append(Run("differs from?", Role.WARNING))
    if model.compare.voted_chat == pane.chat.id:
        marks.append(Run("best", Role.SUCCESS, STRONG))
    if pane.is_kept:
        marks.append(Run(f"{glyphs.unread} kept", Role.SUCCESS))
    right: list[Run] = []
    for mark in marks:
        right += [Run(" "), mark]
    return left, right


def _sampling(pane: Pane) -> str:
    answer = pane.first
    if answer is None:
        return ""
    temperature = json.loads(answer.turn.options or "{}").get("temperature")
    parts = [] if temperature is None else [f"t={temperature:g}"]
    if answer.turn.seed is not None and answer.turn.seed < 10**6:
        parts.append(f"s={answer.turn.seed}")
    return " ".join(parts)


def pane_state_runs(
    pane: Pane, engine: EngineStatus, glyphs: Glyphs, moment: Moment, *, is_blind: bool
) -> list[Run]:
    """How far a pane's newest answer is, how fast, and why it ended."""
    answer = pane.last
    if answer is None:
        return []
    spin = Run(f"{spinner(glyphs, moment.frame)} ", Role.ACCENT)
    if answer.is_open and answer.is_stopping:
        return [spin, Run(f"stopping {glyphs.ellipsis}", Role.WARNING)]
    match answer.status:
        case TurnStatus.QUEUED:
            return _queued(pane, engine, glyphs, moment)
        case TurnStatus.PREFILL:
            return [spin, *_reading(answer, glyphs)]
        case TurnStatus.STREAMING:
            return [spin, *_figures(answer, glyphs, moment, has_speed=not is_blind)]
        case TurnStatus.ERROR:
            return [Run(f"{glyphs.error} failed", Role.ERROR)]
    figures = _figures(answer, glyphs, moment, has_speed=not is_blind)
    word, role = _reason(answer)
    return [*figures, *([Run(f" {glyphs.dot} ", Role.FAINT)] if figures else []), Run(word, role)]


def _queued(pane: Pane, engine: EngineStatus, glyphs: Glyphs, moment: Moment) -> list[Run]:
    stage = engine.stages.get(model_name_of(pane.chat.model))
    if stage is None and engine.ready is None:
        stage = engine.stage
    if stage is None:
        return [Run(f"{glyphs.queued} queued", Role.DIM)]
    share = f" {percent(stage.done, stage.total)}" if stage.total else ""
    return [
        Run(f"{spinner(glyphs, moment.frame)} ", Role.ACCENT),
        Run(f"loading: {visible(stage.stage)}{share}", Role.DIM),
    ]


def _reading(answer: Answer, glyphs: Glyphs) -> list[Run]:
    prefill = answer.prefill
    if prefill is None or not prefill.prompt_tokens:
        return [Run("reading the prompt", Role.DIM)]
    done = prefill.computed_tokens * BAR_CELLS // prefill.prompt_tokens
    return [
        Run("reading ", Role.DIM),
        Run(glyphs.bar_held * done, Role.ACCENT),
        Run(glyphs.bar_free * (BAR_CELLS - done), Role.FAINT),
        Run(f" {grouped(prefill.computed_tokens)}/{grouped(prefill.prompt_tokens)}", Role.DIM),
    ]


def _figures(answer: Answer, glyphs: Glyphs, moment: Moment, *, has_speed: bool) -> list[Run]:
    if not answer.token_count:
        return []
    runs = [Run(f"{grouped(answer.token_count)} tok", Role.DIM)]
    speed = _speed(answer, moment) if has_speed else 0.0
    if speed:
        runs += [Run(f" {glyphs.dot} ", Role.FAINT), Run(rate(speed), Role.DIM)]
    return runs


def _speed(answer: Answer, moment: Moment) -> float:
    if not answer.is_open:
        return answer.usage.decode_tokens_per_s if answer.usage is not None else 0.0
    if answer.first_text_at is None or moment.now_s <= answer.first_text_at:
        return 0.0
    elapsed_s = moment.now_s - answer.first_text_at
    return (answer.token_count - answer.first_token_count) / elapsed_s


def _reason(answer: Answer) -> tuple[str, Role]:
    if answer.status is TurnStatus.INTERRUPTED:
        return "interrupted", Role.WARNING
    if answer.finish_reason is FinishReason.REPEATED:
        return "repeated itself", Role.WARNING
    if answer.status is TurnStatus.STOPPED:
        return "stopped", Role.WARNING
    if answer.finish_reason is FinishReason.LENGTH:
        return "cut at its length", Role.WARNING
    return "complete", Role.SUCCESS


def pane_blocks_runs(pane: Pane, model: CompareModel) -> list[Run]:
    """The KV blocks a pane shares and those of its own."""
    if not pane.shared_blocks + pane.own_blocks:
        return []
    own = f"{grouped(pane.own_blocks)} own block{'' if pane.own_blocks == 1 else 's'}"
    if pane.shared_blocks:
        return [Run(f"{grouped(pane.shared_blocks)} shared + {own}", Role.FAINT)]
    of_model = sum(other.chat.model == pane.chat.model for other in model.panes)
    alone = "" if model.compare.is_blind or of_model > 1 else ", no other answer of its model"
    return [Run(f"{own}{alone}", Role.FAINT)]


def tab_runs(model: CompareModel, engine: EngineStatus, glyphs: Glyphs) -> list[Run]:
    """The panes by number and name; the shown one stands out, a dot tells that one is running."""
    runs: list[Run] = []
    for place, pane in enumerate(model.panes):
        is_selected = place == model.selected
        name = name_of(pane, place, model, engine)
        running = f" {glyphs.dot}" if pane.session.open_answer is not None else "  "
        role, marks = (Role.ACCENT, STRONG) if is_selected else (Role.DIM, 0)
        runs.append(Run(f"{place + 1} {name}{running}  ", role, marks))
    return runs


def hint_runs(model: CompareModel, cells: int, *, is_writing: bool) -> list[Run]:
    """The keys that matter most, as many as fit."""
    if is_writing:
        hints = [Hint("Enter", "send"), Hint("Esc", "back to the answers")]
    else:
        told = (action for action in actions_of(IN_COMPARE) if action.footer)
        hints = [hint_of(a) for a in told if model.is_running or a.id not in WHILE_RUNNING]
    return fitted_runs([*hints, help_hint()], cells)


def placeholder(model: CompareModel) -> str:
    """What the empty prompt says: whom a message goes to."""
    number = len(model.addressed)
    kept = "kept " if model.kept else ""
    key = key_of("compare_write")
    if number == 1:
        return f"{key}: go on with the {kept}answer"
    whom = f"both {kept}" if number == 2 else f"all {number} {kept}"
    return f"{key}: go on with {whom}answers at once"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
