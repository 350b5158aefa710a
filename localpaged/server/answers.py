"""From the engine's events to what an answer says: content, reasoning, calls, chances."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from localpaged.chat.thought import TextPart, ThoughtReader
from localpaged.engine.events import FailEvent, FinishEvent, TokenEvent, TokenLogprob, Usage
from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import EngineStopped, LocalPagedError
from localpaged.prompt import ChatModel, ToolCall, ToolStyle
from localpaged.server.desk import Ticket
from localpaged.server.meters import RequestMeter
from localpaged.server.recent_answers import RecentAnswers
from localpaged.server.tool_calls import ToolCallReader
from localpaged.server.tools import ToolUse
from localpaged.store.text import storable


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token's log probability, what it adds to the text, and the likeliest in its place.

    `piece` is None for a control token, whose name is `text`.
    """

    text: str
    piece: bytes | None
    logprob: float
    top: tuple[ScoredToken, ...] = ()


@dataclass(slots=True)
class Delta:
    """What is new in one answer. `calls` have their number among the answer's calls."""

    index: int
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[int, ToolCall]] = field(default_factory=list)
    logprobs: list[ScoredToken] = field(default_factory=list)
    finish_reason: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        has_text = bool(self.content or self.reasoning or self.calls or self.logprobs)
        return not has_text and self.finish_reason is None


@dataclass(frozen=True, slots=True)
class Bill:
    """What a request took, all its answers together."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """How answers are to be read. `begins_inside`: the prompt opens a thought.

    `recent` remembers what answers were made of.
    """

    model: ChatModel
    tools: ToolUse = field(default_factory=ToolUse)
    style: ToolStyle = "hermes"
    reads_thoughts: bool = True
    begins_inside: bool = False
    num_top_logprobs: int | None = None
    recent: RecentAnswers | None = None


class AnswerReader:
    """One of a request's answers while it arrives. Loop's thread only."""

    def __init__(self, index: int, kind: AnswerKind) -> None:
        self._index = index
        self._kind = kind
        marks = kind.model.reasoning if kind.reads_thoughts else None
        self._thoughts = ThoughtReader(marks, begins_inside=kind.begins_inside)
        self._calls: ToolCallReader | None = None
        if kind.tools.is_told:
            names = {tool.name for tool in kind.tools.callable}
            self._calls = ToolCallReader(kind.style, names, is_parallel=kind.tools.is_parallel)
        self._token_ids: list[int] = []
        self._texts: list[str] = []
        self._num_calls = 0
        self._last_visible_id: int | None = None
        self._end: ScoredToken | None = None  # may be the end token, which is no part of the text

    @property
    def reasoning_tokens(self) -> int:
        """Tokens that were thought; those of an open thought included."""
        thought = self._thoughts.thought
        if thought is None:
            return 0
        return len(self._token_ids) if thought.tokens is None else thought.tokens

    def take(self, event: TokenEvent, delta: Delta) -> None:
        """Add what an event brings to what is new."""
        self._token_ids += event.token_ids
        for scored in event.logprobs:
            self._score(scored, delta)
        if event.text:
            text = storable(event.text)
            self._texts.append(text)
            parts = self._thoughts.take(
                text, token_count=len(self._token_ids), now_s=time.monotonic()
            )
            for part, piece in parts:
                self._add(part, piece, delta)

    def finish(self, reason: FinishReason, delta: Delta) -> None:
        """Add what was held back, and why the answer ended."""
        for part, text in self._thoughts.finish(now_s=time.monotonic()):
            self._add(part, text, delta)
        if self._calls is not None:
            self._add_parts(self._calls.finish(), delta)
        if self._end is not None and reason is not FinishReason.STOP:
            delta.logprobs.append(self._end)
        if (
            reason is not FinishReason.CANCELLED
        ):  # an error tells that, and the API has no word for it
            delta.finish_reason = reason.value
        if self._num_calls and reason is FinishReason.STOP:
            delta.finish_reason = "tool_calls"
        if self._kind.recent is not None:
            self._kind.recent.keep(self._kind.model, "".join(self._texts), self._token_ids)

    def _add(self, part: TextPart, text: str, delta: Delta) -> None:
        if part is TextPart.THOUGHT:
            delta.reasoning += text
        elif part is TextPart.ANSWER and self._calls is None:
            delta.content += text
        elif part is TextPart.ANSWER and self._calls is not None:
            self._add_parts(self._calls.take(text), delta)

    def _add_parts(self, parts: Sequence[str | ToolCall], delta: Delta) -> None:
        for part in parts:
            if isinstance(part, ToolCall):
                delta.calls.append((self._num_calls, part))
                self._num_calls += 1
            else:
                delta.content += part

    def _score(self, scored: TokenLogprob, delta: Delta) -> None:
        if self._end is not None:
            delta.logprobs.append(self._end)
            self._end = None
        num_top = self._kind.num_top_logprobs or 0
        top = tuple(self._scored(id_, chance) for id_, chance in scored.alternatives[:num_top])
        token = self._scored(scored.token_id, scored.logprob, top)
        if token.piece is None:
            self._end = token
        else:
            delta.logprobs.append(token)
            self._last_visible_id = scored.token_id

    def _scored(
        self, token_id: int, logprob: float, top: tuple[ScoredToken, ...] = ()
    ) -> ScoredToken:
        # behind another token, as a tokenizer may leave out the first space of a text
        before = () if self._last_visible_id is None else (self._last_visible_id,)
        piece = self._kind.model.pieces((*before, token_id))[-1]
        if piece:
            return ScoredToken(piece.decode("utf-8", "replace"), piece, logprob, top)
        return ScoredToken(self._kind.model.spell((token_id,)), None, logprob, top)


class Answers:
    """All answers of one request, as they arrive. Loop's thread only."""

    def __init__(self, ticket: Ticket, kind: AnswerKind, meter: RequestMeter) -> None:
        self.ticket = ticket
        self.failure: LocalPagedError | None = None
        self._meter = meter
        self._readers = [AnswerReader(i, kind) for i in range(ticket.request.num_samples)]
        self._usages: dict[int, Usage] = {}
        self._is_read = False

    @property
    def bill(self) -> Bill:
        """What the answers that ended took."""
        usages = list(self._usages.values())
        return Bill(
            prompt_tokens=len(self.ticket.request.prompt_ids),
            cached_tokens=max((usage.cached_tokens for usage in usages), default=0),
            completion_tokens=sum(usage.completion_tokens for usage in usages),
            reasoning_tokens=sum(reader.reasoning_tokens for reader in self._readers),
        )

    async def deltas(self) -> AsyncIterator[list[Delta]]:
        """Yield what is new, all that has come at once; `failure` is set when it ended badly."""
        is_over = False
        while not is_over:
            arrived = await self.ticket.take()
            new: dict[int, Delta] = {}
            for each in arrived:
                self._meter.note(each)
                for event in each.events:
                    if isinstance(event, FailEvent):
                        self.failure = event.error
                    elif isinstance(event, TokenEvent | FinishEvent):
                        delta = new.setdefault(event.branch, Delta(event.branch))
                        self._take(event, delta)
            is_over = self.ticket.is_over
            if deltas := [delta for delta in new.values() if not delta.is_empty]:
                yield deltas
        self._is_read = True

    def close(self) -> None:
        """Nobody reads on, or all was read; a request that is not over is ended in the engine."""
        self._meter.end(has_failed=self.failure is not None, is_read=self._is_read)
        self.ticket.close()

    def _take(self, event: TokenEvent | FinishEvent, delta: Delta) -> None:
        reader = self._readers[event.branch]
        if isinstance(event, TokenEvent):
            reader.take(event, delta)
        else:
            if event.usage is not None:
                self._usages[event.branch] = event.usage
            if event.reason is FinishReason.CANCELLED:
                # whose client is there did not cancel it
                self.failure = EngineStopped("The server is shutting down.")
            reader.finish(event.reason, delta)
