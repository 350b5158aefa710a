"""HTTP with one endpoint: which models it has, and one streamed answer after another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from localpaged.errors import EndpointError, LocalPagedError
from localpaged.plain_text import visible
from localpaged.remote.deltas import BadPiece, Delta, ToldError, read_delta
from localpaged.remote.endpoint import Endpoint
from localpaged.remote.failures import (
    bad_stream,
    broken_off,
    gone_silent,
    is_worth_a_retry,
    not_reached,
    refused,
    told_error,
)
from localpaged.remote.keys import key_of
from localpaged.remote.patience import Patience
from localpaged.remote.served import Served, read_served

MAX_EVENT_BYTES = 1 << 20
MAX_ANSWER_CHARS = 16 << 20
MAX_LIST_BYTES = 8 << 20
MAX_ERROR_BYTES = 1 << 16
MAX_WAIT_S = 30.0
WRITE_TIMEOUT_S = 60.0
NO_PROXY = {"all://": None, "http://": None, "https://": None}
_BUSY = (429, 503)


class Client:
    """One endpoint. On one event loop; `close` ends its connections.

    Invariant: a request is sent again only as long as no word of its answer has arrived.
    """

    def __init__(self, endpoint: Endpoint, *, patience: Patience | None = None) -> None:
        self.endpoint = endpoint
        self._patience = patience or Patience()
        self._http: httpx2.AsyncClient | None = None

    async def served(self) -> Served | None:
        """Ask what the endpoint has; None where it does not tell. Raises LocalPagedError."""
        try:
            async with (
                asyncio.timeout(self.endpoint.timeout_s),
                self._sent("GET", "/models", None) as (response, _),
            ):
                if response.status_code in (404, 405, 501):
                    return None
                return read_served(self.endpoint, await _body(response, MAX_LIST_BYTES))
        except TimeoutError:
            raise gone_silent(self.endpoint, has_begun=False) from None
        except httpx2.TransportError as error:
            raise not_reached(self.endpoint, error) from None

    async def answer(self, body: Mapping[str, Any]) -> AsyncGenerator[Delta, None]:
        """Stream an answer; the first, empty piece comes when the server has taken the request.

        Whoever stops reading closes the connection. Raises LocalPagedError.
        """
        has_begun = False
        try:
            async with asyncio.timeout(self.endpoint.timeout_s) as limit:
                async with self._sent("POST", "/chat/completions", body) as (response, key):
                    self._check_stream(response)
                    yield Delta()
                    async for delta in self._deltas(response, key):
                        has_word = bool(delta.text or delta.thought)
                        has_begun = has_begun or has_word
                        # pieces without a word may come for ever
                        if has_word:
                            limit.reschedule(
                                asyncio.get_running_loop().time() + self.endpoint.idle_timeout_s
                            )
                        yield delta
        except TimeoutError:
            raise gone_silent(self.endpoint, has_begun=has_begun) from None
        except httpx2.TransportError as error:
            if has_begun:
                raise broken_off(self.endpoint, has_begun=True) from None
            raise not_reached(self.endpoint, error) from None

    async def close(self) -> None:
        """End all connections."""
        if self._http is not None:
            await self._http.aclose()

    # inside

    async def _deltas(self, response: httpx2.Response, key: str) -> AsyncGenerator[Delta, None]:
        num_chars, has_ended = 0, False
        try:
            async for event in httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES):
                if event.data == "[DONE]":
                    has_ended = has_ended or num_chars > 0
                    break
                delta = read_delta(event.data)
                num_chars += len(delta.text) + len(delta.thought)
                if num_chars > MAX_ANSWER_CHARS:
                    how = f"over {MAX_ANSWER_CHARS:,} characters came"
                    raise bad_stream(self.endpoint, how, has_begun=True)
                has_ended = has_ended or bool(delta.reason)
                yield delta
        except BadPiece as error:
            has_begun = num_chars > 0
            raise bad_stream(self.endpoint, f"a piece {error}", has_begun=has_begun) from None
        except ToldError as error:
            has_begun = num_chars > 0
            raise told_error(self.endpoint, error.told, key, has_begun=has_begun) from None
        except httpx2.SSEError:
            how = f"a piece is longer than {MAX_EVENT_BYTES:,} bytes"
            raise bad_stream(self.endpoint, how, has_begun=num_chars > 0) from None
        if not has_ended:
            raise broken_off(self.endpoint, has_begun=num_chars > 0)

    def _check_stream(self, response: httpx2.Response) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        name = visible(self.endpoint.name)
        if kind != "text/event-stream":
            raise EndpointError(
                f"{name}: the answer is no stream but {visible(kind[:60]) or 'of no known type'}.",
                hint=f"Is {visible(self.endpoint.url)} the API's address? Most end in /v1.",
            )
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # a few bytes could become more than the memory there is
            raise EndpointError(f"{name}: the stream is compressed, which was not asked for.")

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> AsyncIterator[tuple[httpx2.Response, str]]:
        """Send a request until it is heard; the key it was sent with may be in what is told."""
        key = key_of(self.endpoint)
        http = self._client()
        for attempt in range(1, self._patience.tries + 1):
            is_last = attempt == self._patience.tries
            request = http.build_request(
                method,
                f"{self.endpoint.url.rstrip('/')}{path}",
                headers=_headers(self.endpoint, key),
                content=None if body is None else json.dumps(body),
            )
            try:
                response = await http.send(request, stream=True)
            except httpx2.TransportError as error:
                if is_last or not is_worth_a_retry(error, attempt):
                    raise
                await asyncio.sleep(self._patience.wait_s(attempt))
                continue
            try:
                if response.status_code == 200 or (method == "GET" and response.status_code < 500):
                    await self._check_entry(response, key)
                    yield response, key
                    return
                wait_s = self._patience.wait_s(attempt, response.headers.get("retry-after", ""))
                is_busy = response.status_code in _BUSY
                if is_last or not is_busy or wait_s > MAX_WAIT_S:
                    raise await self._refusal(response, key)
            finally:
                await response.aclose()
            await asyncio.sleep(wait_s)

    async def _check_entry(self, response: httpx2.Response, key: str) -> None:
        missing = (404, 405, 501)
        if response.status_code != 200 and response.status_code not in missing:
            raise await self._refusal(response, key)
        if "html" in response.headers.get("content-type", ""):
            raise await self._refusal(response, key)

    async def _refusal(self, response: httpx2.Response, key: str) -> LocalPagedError:
        body = await _body(response, MAX_ERROR_BYTES)
        kind = response.headers.get("content-type", "").lower()
        return refused(self.endpoint, response.status_code, kind, body, key)

    def _client(self) -> httpx2.AsyncClient:
        if self._http is None:
            self._http = httpx2.AsyncClient(
                # first word and silence have limits of their own, which count through retries
                timeout=httpx2.Timeout(
                    connect=self.endpoint.connect_timeout_s,
                    read=None,
                    write=WRITE_TIMEOUT_S,
                    pool=None,
                ),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=8),
                follow_redirects=False,
                # no proxy knows this machine's own servers
                mounts=NO_PROXY if self.endpoint.is_loopback else None,
            )
        return self._http


def _headers(endpoint: Endpoint, key: str) -> dict[str, str]:
    headers = {
        **dict(endpoint.headers),
        "user-agent": "localpaged",
        "content-type": "application/json",
        "accept-encoding": "identity",
    }
    return {**headers, "authorization": f"Bearer {key}"} if key else headers


async def _body(response: httpx2.Response, limit: int) -> bytes:
    """Return the beginning of a body, compressed or not."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_raw():
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    return b"".join(parts)[:limit]
