"""One endpoint of one run: its client, what is known of it, and one answer after another."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from localpaged.engine.events import Event, FailEvent, FinishEvent, PrefillEvent, TokenEvent, Usage
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import Request
from localpaged.errors import EndpointError, LocalPagedError, ModelNotFound
from localpaged.plain_text import visible
from localpaged.remote.client import Client
from localpaged.remote.deltas import Tally
from localpaged.remote.failures import KEPT
from localpaged.remote.patience import Patience
from localpaged.remote.request_body import make_body
from localpaged.remote.served import Known, known_of
from localpaged.remote_models.messages import AnswerText, as_messages, sampling_values
from localpaged.remote_models.model import EndpointModel

_REASONS = {
    "stop": FinishReason.STOP,
    "": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "length": FinishReason.LENGTH,
}


class Session:
    """The remote thread's loop only. What the server tells of itself is asked for once."""

    def __init__(self, model: EndpointModel, *, patience: Patience | None = None) -> None:
        self.model = model
        self._client = Client(model.endpoint, patience=patience)
        self._known: Known | None = None

    async def known(self) -> Known:
        """Return what the endpoint is, asking it the first time. Raises LocalPagedError."""
        known = self._known
        if known is None:
            known = known_of(self.model.endpoint, await self._client.served())
            self._known = known if known.is_sure else None
            self.model.learn(known)
        return known

    async def answer(self, request: Request) -> AsyncGenerator[Event, None]:
        """Answer a request: events up to its end, which is told by the last of them."""
        submitted_s = time.perf_counter()
        try:
            body = make_body(
                self.model.endpoint,
                await self.known(),
                as_messages(request),
                sampling_values(request),
                is_continuation=request.is_continuation,
            )
            async with aclosing(self._events(request, body, submitted_s)) as events:
                async for event in events:
                    yield event
        except LocalPagedError as error:
            if isinstance(error, ModelNotFound):
                self._known = None  # another model may be there the next time
            yield FailEvent(request.id, error)

    async def close(self) -> None:
        """End its connections."""
        await self._client.close()

    async def _events(
        self, request: Request, body: dict[str, object], submitted_s: float
    ) -> AsyncGenerator[Event, None]:
        text = AnswerText(has_begun=request.is_continuation)
        reason, tally = "", None
        first_s = last_s = 0.0
        is_taken = False
        async with aclosing(self._client.answer(body)) as deltas:
            async for delta in deltas:
                if not is_taken:
                    # how long the prompt is, and how far it was read, is not told
                    yield PrefillEvent(request.id, 0, 0, 0)
                    is_taken = True
                reason, tally = delta.reason or reason, delta.tally or tally
                if added := text.add(delta.text, delta.thought):
                    last_s = time.perf_counter()
                    first_s = first_s or last_s
                    yield TokenEvent(request.id, (), added)
        if reason not in _REASONS:
            raise self._odd_end(reason)
        usage = _usage(tally, submitted_s, first_s, last_s)
        yield FinishEvent(request.id, _REASONS[reason], usage)

    def _odd_end(self, reason: str) -> EndpointError:
        name = visible(self.model.name)
        if reason == "content_filter":
            return EndpointError(f"{name}: the server's content filter cut the answer.", hint=KEPT)
        if reason in ("tool_calls", "function_call"):
            return EndpointError(f"{name}: the model asked for a tool; there are none here.")
        return EndpointError(f"{name}: the answer ended oddly: {visible(reason[:60])}.", hint=KEPT)


def _usage(tally: Tally | None, submitted_s: float, first_s: float, last_s: float) -> Usage | None:
    if tally is None:
        return None
    return Usage(
        tally.prompt_tokens,
        tally.cached_tokens or 0,
        tally.completion_tokens,
        max(0.0, first_s - submitted_s),
        last_s - first_s,
        is_cache_told=tally.cached_tokens is not None,
    )
