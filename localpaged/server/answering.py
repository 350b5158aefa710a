"""The response that waits for the engine: as one body, or as a stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from localpaged.engine.events import FailEvent
from localpaged.errors import EngineStopped, LocalPagedError
from localpaged.server.answers import Answers
from localpaged.server.bodies import Shape, Whole, to_json
from localpaged.server.errors import SERVER, ApiError, api_error_of
from localpaged.server.guard import error_response

DONE = b"data: [DONE]\n\n"
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Answering(Response):
    """One request that the engine has. Whoever goes away before its end has it cancelled."""

    def __init__(
        self,
        answers: Answers,
        shape: Shape,
        *,
        is_stream: bool,
        grammar_param: str | None,
        on_over: Callable[[], None],
    ) -> None:
        """`on_over` is called when the request is over, however it ends."""
        super().__init__()
        self._answers = answers
        self._shape = shape
        self._is_stream = is_stream
        self._grammar_param = grammar_param
        self._on_over = on_over
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; a disconnect ends it."""
        work = asyncio.ensure_future(self._answer(scope, receive, send))
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for task in (work, gone):
                task.cancel()
            self._end()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        # what the engine refuses is told by a status, so nothing is sent before its first word
        first = await self._answers.ticket.wait()
        if isinstance(first, FailEvent):
            self._answers.failure = first.error
            self._end()
            refusal = self._error(first.error, is_refusal=True)
            await error_response(refusal)(scope, receive, send)
        elif self._is_stream:
            await self._send_stream(send)
        else:
            await (await self._whole())(scope, receive, send)

    async def _whole(self) -> Response:
        wholes = [Whole() for _ in range(self._answers.ticket.request.num_samples)]
        async for deltas in self._answers.deltas():
            for delta in deltas:
                wholes[delta.index].add(delta)
        self._end()
        if self._answers.failure is not None:
            return error_response(self._error(self._answers.failure))
        body = self._shape.whole(wholes, self._answers.bill)
        return Response(to_json(body), media_type="application/json")

    async def _send_stream(self, send: Send) -> None:
        # a list of its own, which middleware may add to
        headers = list(STREAM_HEADERS)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        num_answers = self._answers.ticket.request.num_samples
        opening = [_event(chunk) for chunk in self._shape.first_chunks(num_answers)]
        await _send_body(send, b"".join(opening))
        async for deltas in self._answers.deltas():
            await _send_body(send, b"".join(_event(self._shape.chunk(each)) for each in deltas))
        self._end()
        failure = self._answers.failure
        if failure is not None:
            ending = _event(self._error(failure).body())
        else:
            usage = self._shape.usage_chunk(self._answers.bill)
            ending = (b"" if usage is None else _event(usage)) + DONE
        await send({"type": "http.response.body", "body": ending, "more_body": False})

    def _end(self) -> None:
        """Count the request and give its place back: before its client hears of the end, so that
        whoever asks again at once, or looks at the metrics, finds it done."""
        if not self._is_over:
            self._is_over = True
            self._answers.close()
            self._on_over()

    def _error(self, error: LocalPagedError, *, is_refusal: bool = False) -> ApiError:
        if isinstance(error, EngineStopped):
            return ApiError(503, "The server is shutting down.", type=SERVER, code="shutting_down")
        return api_error_of(error, grammar_param=self._grammar_param, is_refusal=is_refusal)


async def _send_body(send: Send, body: bytes) -> None:
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _event(body: object) -> bytes:
    return b"data: " + to_json(body) + b"\n\n"


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
