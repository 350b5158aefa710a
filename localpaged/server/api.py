"""The endpoints. Each body is read within its limits, and what is long runs beside the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from localpaged.engine.params import SamplingParams
from localpaged.server.answering import Answering
from localpaged.server.answers import Answers
from localpaged.server.bodies import ChatShape, CompletionShape, Shape, model_body, to_json
from localpaged.server.desk import Desk
from localpaged.server.errors import SERVER, ApiError, no_such_model, queue_full
from localpaged.server.guard import CHAT_PATH, TEXT_PATH, Guard, error_response
from localpaged.server.meters import CONTENT_TYPE, Meters, RequestMeter
from localpaged.server.offer import Offer
from localpaged.server.prompts import Known, Order, chat_order, completion_order
from localpaged.server.recent_answers import RecentAnswers
from localpaged.server.settings import ServerSettings

NUM_READERS = 2
"""Threads that parse and render; what they do holds Python's lock most of the time."""
SMALL_BODY_BYTES = 4 << 10
"""Up to here a body is read by the loop itself, in a millisecond. A thread would wait twice for
Python's lock beside a busy engine, and requests that come together would miss its next step."""
LARGE_BODY_BYTES = 256 << 10
"""From here on a body is read behind the other large ones: 16 MiB of text take 10 s of a core."""

log = logging.getLogger(__name__)


class _MakeOrder(Protocol):
    def __call__(self, raw: bytes, known: Known, *, client: str) -> Order: ...


class Api:
    """What every endpoint needs. Loop's thread; `close` ends the threads that render."""

    def __init__(
        self,
        *,
        settings: ServerSettings,
        sampling: SamplingParams,
        desk: Desk,
        offer: Offer,
        meters: Meters,
    ) -> None:
        self._settings = settings
        self._known = Known(offer, sampling, RecentAnswers())
        self._desk = desk
        self._offer = offer
        self._meters = meters
        self._num_open = 0
        self._readers = ThreadPoolExecutor(NUM_READERS, thread_name_prefix="server-reader")
        self._large_reader = ThreadPoolExecutor(1, thread_name_prefix="large-reader")

    def app(self) -> Guard:
        """Return the application, behind its guard."""
        routes = [
            Route("/health", self.health),
            Route("/ready", self.ready),
            Route("/metrics", self.metrics),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route(CHAT_PATH, self.chat_completions, methods=["POST"]),
            Route(TEXT_PATH, self.completions, methods=["POST"]),
        ]
        middleware = []
        if self._settings.origins:
            middleware.append(
                Middleware(
                    CORSMiddleware,
                    allow_origins=list(self._settings.origins),
                    allow_methods=["GET", "POST"],
                    allow_headers=["Authorization", "Content-Type"],
                )
            )
        app = Starlette(
            routes=routes,
            middleware=middleware,
            exception_handlers={
                ApiError: _told,
                HTTPException: _routing_error,
                ClientDisconnect: _gone,
                Exception: _unexpected,
            },
        )
        app.router.redirect_slashes = False  # it would tell the address that the client wrote
        return Guard(app, self._settings, self._meters)

    def close(self) -> None:
        """End the threads."""
        for readers in (self._readers, self._large_reader):
            readers.shutdown(wait=False, cancel_futures=True)

    async def health(self, request: Request) -> Response:
        """Whether the process and its engine live."""
        if self._offer.failure is not None:
            return _json({"status": "failed", "error": self._offer.failure.message}, status=503)
        status = "ready" if self._offer.is_ready else "loading"
        return _json({"status": status, "stage": self._offer.stage})

    async def ready(self, request: Request) -> Response:
        """Whether the default model answers."""
        is_ready = self._offer.is_ready
        return _json({"ready": is_ready}, status=200 if is_ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Return Prometheus' page."""
        return Response(self._meters.text(), headers={"content-type": CONTENT_TYPE})

    async def models(self, request: Request) -> Response:
        """List what can be asked."""
        served = self._offer.served()
        return _json({"object": "list", "data": [model_body(each) for each in served]})

    async def model(self, request: Request) -> Response:
        """Return one model."""
        name = request.path_params["name"]
        served = self._offer.served()
        found = next((each for each in served if each.name == name), None)
        if found is None:
            raise no_such_model(name, [each.name for each in served])
        return _json(model_body(found))

    async def chat_completions(self, request: Request) -> Response:
        """Answer a conversation."""
        return await self._answer(request, chat_order, ChatShape)

    async def completions(self, request: Request) -> Response:
        """Go on with a text."""
        return await self._answer(request, completion_order, CompletionShape)

    async def _answer(
        self, request: Request, make_order: _MakeOrder, shape_type: type[Shape]
    ) -> Response:
        self._take_place()
        try:
            raw = await self._body(request)
            make = partial(make_order, raw, self._known, client=_client_of(request))
            if len(raw) <= SMALL_BODY_BYTES:
                return self._answering(make(), shape_type)
            readers = self._readers if len(raw) < LARGE_BODY_BYTES else self._large_reader
            return self._answering(await _read_for(request, readers, make), shape_type)
        except BaseException:
            self._leave_place()
            raise

    def _answering(self, order: Order, shape_type: type[Shape]) -> Answering:
        asked = order.asked
        shape = shape_type(
            order.served,
            has_logprobs=asked.sampling.logprobs is not None,
            has_stream_usage=asked.has_stream_usage,
        )
        meter = RequestMeter(self._meters, order.served.name)
        return Answering(
            Answers(self._desk.submit(order.request), order.kind, meter),
            shape,
            is_stream=asked.is_stream,
            grammar_param=asked.grammar_param,
            on_over=self._leave_place,
        )

    def _take_place(self) -> None:
        if self._num_open >= self._settings.max_requests:
            raise queue_full(self._settings.max_requests)
        self._num_open += 1

    def _leave_place(self) -> None:
        self._num_open -= 1

    async def _body(self, request: Request) -> bytes:
        limit = self._settings.body_bytes
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and len(declared) < 20 and int(declared) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        num_bytes = 0
        try:
            async with asyncio.timeout(self._settings.read_s):
                async for part in request.stream():
                    num_bytes += len(part)
                    if num_bytes > limit:
                        raise _too_large(limit)
                    parts.append(part)
        except TimeoutError:
            raise ApiError(
                408, f"The body did not arrive within {self._settings.read_s:g} s."
            ) from None
        return b"".join(parts)


def _client_of(request: Request) -> str:
    client = request.client
    return "" if client is None else f"{client.host}:{client.port}"


async def _read_for(
    request: Request, readers: ThreadPoolExecutor, make: Callable[[], Order]
) -> Order:
    """Return what `make` returns on a thread. Raises ClientDisconnect when its client goes away.

    What has not begun then is not begun; what has goes on alone, and nobody waits for it.
    """
    reading = asyncio.get_running_loop().run_in_executor(readers, make)
    leaving = asyncio.ensure_future(_left(request))
    try:
        both: set[asyncio.Future[Any]] = {reading, leaving}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
            raise ClientDisconnect
        return reading.result()
    finally:
        leaving.cancel()


async def _left(request: Request) -> None:
    """Return when the client of a request that was read whole is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_large(limit: int) -> ApiError:
    # The connection stays, and what still comes is dropped (`LimitedProtocol` bounds for how long):
    # closing in the middle of a body resets it, and the client would never read this.
    return ApiError(413, f"The body is larger than {limit:,} bytes.")


def _json(body: object, *, status: int = 200) -> Response:
    return Response(to_json(body), status_code=status, media_type="application/json")


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error)


async def _routing_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path}"
    message = f"Invalid URL ({where})" if error.status_code == 404 else f"{error.detail}: {where}"
    return error_response(ApiError(error.status_code, message))


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("a request failed", exc_info=error)
    message = "The server had an error while processing your request."
    return error_response(ApiError(500, message, type=SERVER))
