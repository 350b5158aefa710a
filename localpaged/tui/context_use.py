"""How much of the model's context a chat fills."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import PromptEndless, PromptTooLong
from localpaged.store.rows import TurnStatus
from localpaged.tui.session import Answer, SessionModel

if TYPE_CHECKING:
    from localpaged.chat.events import TurnEnded
    from localpaged.engine.events import ReadyEvent
    from localpaged.tui.workspace import EngineStatus


class ContextUse(NamedTuple):
    """Tokens of prompt and answer, and how many there may be."""

    used: int
    limit: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.used / self.limit


def context_use(session: SessionModel, engine: EngineStatus) -> ContextUse | None:
    """Return what the chat's last answer had; None while that is not known."""
    answer = session.last_answer
    ready = None if answer is None else engine.ready_of(answer.turn.model)
    limit = ready.context_length if ready is not None else 0
    if answer is None or not limit:
        return None
    if answer.usage is not None:
        used = answer.usage.prompt_tokens + answer.usage.completion_tokens
        return ContextUse(used, limit)
    if answer.prefill is not None and answer.prefill.prompt_tokens:
        asked = answer.prefill.prompt_tokens - answer.prefill.begun_tokens
        return ContextUse(asked + answer.token_count, limit)
    refused = answer.turn.prompt_tokens
    return None if refused is None else ContextUse(refused + answer.token_count, limit)


def mark_full(session: SessionModel, engine: EngineStatus) -> None:
    """Mark what found no room when it was asked: the history keeps the numbers, not the limit."""
    for entry in session.entries:
        if not isinstance(entry, Answer):
            continue
        turn, ready = entry.turn, engine.ready_of(entry.turn.model)
        mark_endpoint(entry, ready)
        if turn.prompt_tokens is None:
            continue
        is_cut = entry.finish_reason is FinishReason.LENGTH or turn.status is TurnStatus.ERROR
        used = turn.prompt_tokens + (turn.completion_tokens or 0)
        limit = 0 if ready is None or ready.is_endpoint else ready.context_length
        entry.is_context_full = is_cut and 0 < limit <= used


def mark_endpoint(answer: Answer, ready: ReadyEvent | None) -> None:
    """Mark an answer that an endpoint made, and whether that can go on with it."""
    answer.is_by_endpoint = ready is not None and ready.is_endpoint
    answer.is_final_there = ready is not None and not ready.can_continue


def fills_context(ended: TurnEnded, ready: ReadyEvent | None) -> bool:
    """Whether a question found no room in the context, or its answer was cut by it."""
    if ready is not None and ready.is_endpoint:
        return False  # nobody here can count the ways on
    if isinstance(ended.error, PromptTooLong):
        return not isinstance(ended.error, PromptEndless)  # that has no way on
    usage = ended.usage
    if ended.finish_reason is not FinishReason.LENGTH or usage is None or ready is None:
        return False
    return usage.prompt_tokens + usage.completion_tokens >= ready.context_length
