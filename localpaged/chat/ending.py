"""What is written down about a turn that has ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

from localpaged.chat.events import TurnEnded
from localpaged.chat.live import LiveTurn
from localpaged.chat.thought import from_json
from localpaged.chat.token_chances import chances
from localpaged.engine.events import Usage
from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import LocalPagedError, PromptTooLong
from localpaged.store.rows import Turn, TurnStatus


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended."""

    status: TurnStatus
    reason: FinishReason | None = None
    usage: Usage | None = None
    error: LocalPagedError | None = None


def ended_row(live: LiveTurn, ending: Ending, *, now: float) -> Turn:
    """Return the turn's final row, but for its place in the tree; its text is still in it."""
    row = replace(
        live.row(),
        status=ending.status,
        finish_reason=None if ending.reason is None else ending.reason.value,
        error=None if ending.error is None else ending.error.message,
        finished_at=now,
    )
    if ending.usage is not None:
        usage = live.total_usage(ending.usage)
        return replace(
            row,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens if usage.is_cache_told else None,
            completion_tokens=usage.completion_tokens,
            ttft_s=usage.ttft_s,
            decode_s=usage.decode_s,
        )
    if live.prefill is not None and live.prefill.prompt_tokens:
        return replace(
            row,
            prompt_tokens=live.prefill.prompt_tokens - live.num_begun,
            cached_tokens=live.prefill.cached_tokens,
        )
    if isinstance(ending.error, PromptTooLong) and live.prompt is not None and live.prompt.ids:
        return replace(row, prompt_tokens=len(live.prompt.ids))
    return row


def ended_event(live: LiveTurn, ending: Ending) -> TurnEnded:
    """Return what is told about the end."""
    usage = None if ending.usage is None else live.total_usage(ending.usage)
    turn = live.turn
    return TurnEnded(
        turn.chat_id,
        turn.id,
        ending.status,
        ending.reason,
        usage,
        ending.error,
        from_json(live.row().thought),
        () if live.model is None else chances(live.logprobs, live.model),
    )
