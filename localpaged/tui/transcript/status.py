"""The dim line under an answer: how far it is, what it cost, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localpaged.engine.finish_reason import FinishReason
from localpaged.plain_text import visible
from localpaged.store.rows import Siblings, TurnStatus
from localpaged.tui.figures import grouped, rate, seconds
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.keys import key_of
from localpaged.tui.markdown.line import Role, Run
from localpaged.tui.memory.why import hint_of
from localpaged.tui.paint import cells_of
from localpaged.tui.session import Answer

if TYPE_CHECKING:
    from localpaged.chat.events import TurnPrefill
    from localpaged.engine.events import PrefillEvent, Usage

READING_BAR_CELLS = 10
LEAST_RATED_S = 0.2
"""A few tokens of the first moment, guessed ones above all, tell no speed."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a status line depends on besides the answer: the clock, the spinner, the model."""

    now_s: float = 0.0
    frame: int = 0
    is_model_ready: bool = True


def spinner(glyphs: Glyphs, frame: int) -> str:
    """The spinner's glyph of this frame."""
    return glyphs.spinner[frame % len(glyphs.spinner)]


def version_runs(siblings: Siblings | None, glyphs: Glyphs) -> list[Run]:
    """Which of its versions a line is; nothing for the only one."""
    if siblings is None:
        return []
    text = f"{siblings.place + 1}/{len(siblings.keys)}"
    return [Run(f"{glyphs.before_version}{text}{glyphs.after_version}", Role.ACCENT)]


def status_runs(
    answer: Answer, glyphs: Glyphs, moment: Moment, *, cells: int | None = None
) -> list[Run]:
    """One line of runs; empty when there is nothing to tell.

    What it costs is left out part by part where there are not `cells` enough.
    """
    version = version_runs(answer.siblings, glyphs)
    if version:
        version.append(Run("  "))
        cells = None if cells is None else max(0, cells - cells_of(version))
    return [*version, *_state_runs(answer, glyphs, moment, cells=cells)]


def _state_runs(answer: Answer, glyphs: Glyphs, moment: Moment, *, cells: int | None) -> list[Run]:
    if answer.is_open and answer.is_stopping:
        return _stopping(answer, glyphs, moment)
    match answer.status:
        case TurnStatus.QUEUED:
            waits = "queued" if moment.is_model_ready else "waits for the model"
            return [Run(f"{glyphs.queued} ", Role.WARNING), Run(waits, Role.DIM)]
        case TurnStatus.PREFILL:
            return reading_runs("reading the prompt", answer.prefill, glyphs, moment.frame)
        case TurnStatus.STREAMING:
            return _streaming(answer, glyphs, moment, cells)
        case TurnStatus.DONE:
            return _ended(answer, glyphs, "", "", cells)
        case TurnStatus.STOPPED:
            is_loop = answer.finish_reason is FinishReason.REPEATED
            word = "ended: it repeated itself" if is_loop else "stopped"
            return _ended(answer, glyphs, glyphs.stopped, word, cells)
        case TurnStatus.INTERRUPTED:
            return _ended(answer, glyphs, glyphs.interrupted, "interrupted", cells)
        case TurnStatus.ERROR:
            message = visible(answer.error) or "The answer failed."
            return [
                Run(f"{glyphs.error} ", Role.ERROR),
                Run(message, Role.ERROR),
                *_after_dot(_continue_runs(answer), glyphs),
            ]


def reading_runs(
    what: str, prefill: TurnPrefill | PrefillEvent | None, glyphs: Glyphs, frame: int
) -> list[Run]:
    """What is read, and as soon as it is known how far that is and how much was cached."""
    runs = [Run(f"{spinner(glyphs, frame)} ", Role.ACCENT), Run(what, Role.DIM)]
    if prefill is None or not prefill.prompt_tokens:
        return runs
    cells = READING_BAR_CELLS
    cached = prefill.cached_tokens * cells // prefill.prompt_tokens
    done = max(cached, prefill.computed_tokens * cells // prefill.prompt_tokens)
    new_total = prefill.prompt_tokens - prefill.cached_tokens
    new_done = max(0, prefill.computed_tokens - prefill.cached_tokens)
    return [
        *runs,
        Run("  "),
        Run(glyphs.bar_cached * cached, Role.ACCENT),
        Run(glyphs.bar_held * (done - cached), Role.ACCENT),
        Run(glyphs.bar_free * (cells - done), Role.FAINT),
        Run(
            f"  {grouped(prefill.cached_tokens)} cached + "
            f"{grouped(new_done)} of {grouped(new_total)} new",
            Role.DIM,
        ),
    ]


def _stopping(answer: Answer, glyphs: Glyphs, moment: Moment) -> list[Run]:
    then = ", then it continues" if answer.is_resume_asked else ""
    return [
        Run(f"{spinner(glyphs, moment.frame)} ", Role.ACCENT),
        Run(f"stopping {glyphs.ellipsis}{then}", Role.WARNING),
    ]


def _streaming(answer: Answer, glyphs: Glyphs, moment: Moment, cells: int | None) -> list[Run]:
    # an endpoint counts at the end
    num_tokens = answer.token_count
    parts = [f"{grouped(num_tokens)} tok" if num_tokens else "answering"]
    elapsed_s = 0.0 if answer.first_text_at is None else moment.now_s - answer.first_text_at
    if num_tokens and elapsed_s >= LEAST_RATED_S:
        parts.append(rate((num_tokens - answer.first_token_count) / elapsed_s))
    parts += _prompt_parts(answer)
    lead = [Run(f"{spinner(glyphs, moment.frame)} ", Role.ACCENT)]
    while len(parts) > 1 and not _fits([*lead, *_joined(parts, glyphs)], cells):
        del parts[-1]
    return [*lead, *_joined(parts, glyphs)]


def _ended(answer: Answer, glyphs: Glyphs, glyph: str, word: str, cells: int | None) -> list[Run]:
    parts: list[str] = []
    if answer.finish_reason is FinishReason.LENGTH:
        glyph, word = glyphs.stopped, _cut(answer)
    if answer.token_count:
        parts.append(f"{grouped(answer.token_count)} tok")
    if answer.usage is not None:
        parts.extend(_usage_parts(answer.usage))
    runs = _bill(answer, glyphs, f"{glyph} {word}".strip(), parts)
    while parts and not _fits(runs, cells):
        del parts[0]
        runs = _bill(answer, glyphs, f"{glyph} {word}".strip(), parts)
    way_on = _continue_runs(answer)
    if way_on and not _fits(runs, cells):
        # the glyph tells how it ended; the way on is what matters
        return [Run(f"{glyph} ", Role.WARNING), *way_on]
    return runs


def _cut(answer: Answer) -> str:
    """Why an answer was cut. It may have been made with less context than there is now."""
    if answer.is_context_full:
        return "cut: the context is full"
    if answer.is_cut_by_context and answer.is_by_endpoint:
        return "cut by its server"  # its context was full, or it sets limits of its own
    return "cut: its context was full" if answer.is_cut_by_context else "cut at its length limit"


def _bill(answer: Answer, glyphs: Glyphs, how: str, parts: list[str]) -> list[Run]:
    runs = _joined(parts, glyphs)
    if hint := hint_of(answer.cache_report):
        why = [Run(f"{hint}, ", Role.DIM), Run(f"{key_of('why')} why", Role.ACCENT)]
        runs += _after_dot(why, glyphs) if runs else why
    if how:
        runs = [Run(how, Role.WARNING), *_after_dot(runs, glyphs)]
    return [*runs, *_after_dot(_continue_runs(answer), glyphs)]


def _fits(runs: list[Run], cells: int | None) -> bool:
    return cells is None or cells_of(runs) <= cells


def _continue_runs(answer: Answer) -> list[Run]:
    if answer.is_context_full and answer.is_last:
        return [Run("/context shows the ways on", Role.ACCENT)]
    if not answer.can_continue or (answer.is_final_there and answer.text.strip()):
        return []
    failed = answer.status is TurnStatus.ERROR
    key = key_of("resume")
    return [Run(f"{key} tries again" if failed else f"{key} continues", Role.ACCENT)]


def _usage_parts(usage: Usage) -> list[str]:
    parts = [rate(usage.decode_tokens_per_s)] if usage.decode_s > 0 else []
    # neither is known of an answer that the end of the program stopped
    if usage.completion_tokens and usage.ttft_s > 0:
        parts.append(f"TTFT {seconds(usage.ttft_s)}")
    told = f"{grouped(usage.cached_tokens)} cached + {grouped(usage.new_tokens)} new"
    parts.append(told if usage.is_cache_told else f"prompt {grouped(usage.prompt_tokens)} tok")
    return parts


def _prompt_parts(answer: Answer) -> list[str]:
    prefill = answer.prefill
    if prefill is None or not prefill.prompt_tokens:
        return []
    new = prefill.prompt_tokens - prefill.cached_tokens
    return [f"{grouped(prefill.cached_tokens)} cached + {grouped(new)} new"]


def _joined(parts: list[str], glyphs: Glyphs) -> list[Run]:
    runs: list[Run] = []
    for part in parts:
        if runs:
            runs.append(Run(f" {glyphs.dot} ", Role.FAINT))
        runs.append(Run(part, Role.DIM))
    return runs


def _after_dot(runs: list[Run], glyphs: Glyphs) -> list[Run]:
    return [Run(f" {glyphs.dot} ", Role.FAINT), *runs] if runs else []
