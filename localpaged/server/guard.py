"""Guard: who may ask. Every request passes it before anything of it is read."""

from __future__ import annotations

import hashlib
import hmac
import logging

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localpaged.server.bodies import to_json
from localpaged.server.errors import INVALID, ApiError
from localpaged.server.meters import Meters
from localpaged.server.settings import LOOPBACK_NAMES, ServerSettings

BODY_PATHS = CHAT_PATH, TEXT_PATH = ("/v1/chat/completions", "/v1/completions")
"""Where a body is read, which a web page must not be able to post unasked."""

OPEN_PATHS = ("/health", "/ready")
"""What tells only whether the server lives; balancers and supervisors have no key."""

log = logging.getLogger(__name__)


class Guard:
    """Asks for the right host, origin, key and kind of body. Loop's thread.

    A web page reaches a loopback address by a name of its own that resolves to it, or by posting
    a plain text: neither passes.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, meters: Meters) -> None:
        self._app = app
        self._settings = settings
        self._meters = meters
        self._key = _digest(settings.api_key) if settings.api_key else b""
        names = (*LOOPBACK_NAMES, settings.host, *settings.allowed_hosts)
        self._hosts = frozenset(name.lower() for name in names)
        self._checks_hosts = settings.is_loopback or bool(settings.allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._meters.responses.labels(str(message["status"])).inc()
            await send(message)

        try:
            self._check(scope)
        except ApiError as error:
            await error_response(error)(scope, receive, counted)
        else:
            await self._app(scope, receive, counted)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = _host_of(headers.get("host", ""))
        if self._checks_hosts and host not in self._hosts:
            raise ApiError(403, "This host is not served here.", code="host_not_allowed")
        origin = headers.get("origin")
        if origin is not None and not self._is_allowed(origin, headers.get("host", "")):
            raise ApiError(403, "Pages of this origin may not ask here.", code="origin_not_allowed")
        is_preflight = scope["method"] == "OPTIONS" and origin is not None
        if self._key and scope["path"] not in OPEN_PATHS and not is_preflight:
            self._check_key(headers.getlist("authorization"))
        if scope["method"] == "POST" and scope["path"] in BODY_PATHS:
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise ApiError(415, "The body must be JSON: send 'Content-Type: application/json'.")

    def _is_allowed(self, origin: str, host: str) -> bool:
        return origin in self._settings.origins or origin in (f"http://{host}", f"https://{host}")

    def _check_key(self, given: list[str]) -> None:
        scheme, _, key = (given[0] if len(given) == 1 else "").partition(" ")
        if scheme.lower() != "bearer" or not key:
            raise ApiError(
                401,
                "You didn't provide an API key. You need to provide your API key in an "
                "Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if not hmac.compare_digest(_digest(key.strip()), self._key):
            raise ApiError(
                401,
                "Incorrect API key provided.",
                type=INVALID,
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )


def error_response(error: ApiError) -> Response:
    """Return an error as a response."""
    return Response(
        to_json(error.body()),
        status_code=error.status,
        media_type="application/json",
        headers=error.headers,
    )


def _host_of(header: str) -> str:
    """Return the name in a Host header, without its port."""
    if not header.startswith("["):
        return header.partition(":")[0].lower()
    name, _, rest = header[1:].partition("]")
    return name.lower() if rest[:1] in ("", ":") else ""


def _digest(key: str) -> bytes:
    # of one length, so that comparing tells nothing of how much was right
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
