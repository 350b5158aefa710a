"""What goes wrong with an endpoint, in one sentence each. Texts of servers are data, and short."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx2

from localpaged.errors import EndpointError, LocalPagedError, ModelNotFound, PromptTooLong
from localpaged.plain_text import visible
from localpaged.remote.endpoint import Endpoint
from localpaged.remote.keys import without_key

SHOWN_CHARS = 300
KEPT = "What has arrived is kept: continue the answer, or regenerate it."
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|longer than the (model|context)"
    r"|exceeds? the available context|too many tokens",
    re.IGNORECASE,
)
_TRY = "Is the address right, and the server running? What was asked can be asked again."


def is_worth_a_retry(error: httpx2.TransportError, attempt: int) -> bool:
    """Whether a request that was not answered may be in a moment; `attempt` counts from 1."""
    if isinstance(error, (httpx2.NetworkError, httpx2.RemoteProtocolError)) and not isinstance(
        error, httpx2.ConnectError
    ):
        # once: a connection that was kept may have been closed at the other end meanwhile
        return attempt == 1
    # a host that is silent was waited for long enough
    if not isinstance(error, httpx2.ConnectError):
        return False
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return False
    dns = next((cause for cause in causes if isinstance(cause, socket.gaierror)), None)
    return dns is None or dns.errno == socket.EAI_AGAIN


def not_reached(endpoint: Endpoint, error: httpx2.TransportError) -> EndpointError:
    """Return why a request did not get through, or its answer never began."""
    host = visible(endpoint.host)
    say = partial(_sentence, endpoint)
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return EndpointError(
            say(f"the host {host} is not known."), hint="Check the address and the network."
        )
    tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return EndpointError(
            say(f"the certificate of {host} is not trusted: {tls.verify_message}."),
            hint="SSL_CERT_FILE names a file with your own authority's certificate.",
        )
    if tls is not None:
        return EndpointError(
            say(f"{host} does not speak TLS."), hint="Is it http:// instead of https://?"
        )
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return EndpointError(say(f"nothing answers at {host}."), hint=_TRY)
    if isinstance(error, httpx2.ConnectTimeout):
        seconds = f"{endpoint.connect_timeout_s:g} s"
        return EndpointError(say(f"{host} did not answer within {seconds}."), hint=_TRY)
    if isinstance(error, httpx2.ProxyError):
        return EndpointError(
            say(f"the proxy does not let the request through to {host}."),
            hint="NO_PROXY names hosts that are asked without the proxy.",
        )
    if isinstance(error, httpx2.ConnectError):
        reason = next((c.strerror for c in causes if isinstance(c, OSError) and c.strerror), "")
        told = f": {visible(reason)}" if reason else ""
        return EndpointError(say(f"{host} cannot be reached{told}."), hint=_TRY)
    return EndpointError(say(f"the connection to {host} was lost before an answer."), hint=_TRY)


def _sentence(endpoint: Endpoint, told: str) -> str:
    """Begin what is told of a host with the endpoint's name, unless that is the host already."""
    name, host = visible(endpoint.name), visible(endpoint.host)
    if not endpoint.is_by_address and name != host:
        return f"{name}: {told}"
    return told if told.startswith(host) else told[:1].upper() + told[1:]


def broken_off(endpoint: Endpoint, *, has_begun: bool) -> EndpointError:
    """The connection ended in the middle of an answer, or before its first word."""
    name = visible(endpoint.name)
    if not has_begun:
        return EndpointError(
            f"{name}: the server accepted the question and ended without an answer.",
            hint="Its log may say why, such as a chat that is too long for its context.",
        )
    return EndpointError(f"{name}: the connection was lost in the middle.", hint=KEPT)


def gone_silent(endpoint: Endpoint, *, has_begun: bool) -> EndpointError:
    """Nothing came for too long."""
    name = visible(endpoint.name)
    if has_begun:
        silent = f"{endpoint.idle_timeout_s:g} s"
        return EndpointError(f"{name}: the answer stopped coming for {silent}.", hint=KEPT)
    return EndpointError(
        f"{name}: no word of an answer came within {endpoint.timeout_s:g} s.",
        hint="A model may still be loading there: ask again, or set timeout_s higher.",
    )


def bad_stream(endpoint: Endpoint, how: str, *, has_begun: bool) -> EndpointError:
    """The stream of an answer is not what was agreed on."""
    hint = KEPT if has_begun else _TRY
    return EndpointError(f"{visible(endpoint.name)}: the stream is broken: {how}.", hint=hint)


def refused(
    endpoint: Endpoint, status: int, content_type: str, body: bytes, key: str
) -> LocalPagedError:
    """Return the error that an answer with this status and body means."""
    name = visible(endpoint.name)
    if "html" in content_type:
        return EndpointError(
            f"{name}: a web page came instead of an answer (HTTP {status}).",
            hint=f"Is {visible(endpoint.url)} the API's address? Most end in /v1.",
        )
    told = told_by(body, key)
    if status in (401, 403):
        return _no_entry(endpoint, status, told)
    if status in (400, 413, 422) and _TOO_LONG.search(told):
        return PromptTooLong(
            f"{name}: the chat is too long for its model: {told}",
            hint="Fork from an earlier message, or start a new chat.",
        )
    if 300 <= status < 400:
        return EndpointError(
            f"{name}: the server redirects to another address (HTTP {status}).",
            hint="Give that address as url: keys are not sent elsewhere.",
        )
    if status == 429:
        return EndpointError(f"{name}: too many requests: {told}", hint="Ask again later.")
    if status == 503:
        return EndpointError(f"{name}: not ready to answer: {told}", hint="Ask again later.")
    if status >= 500:
        return EndpointError(f"{name}: the server failed (HTTP {status}): {told}", hint=_TRY)
    if status == 404 and "model" in told.lower():
        return ModelNotFound(f"{name}: {told}", hint="Its list of models has what there is.")
    if status == 404:
        return EndpointError(
            f"{name}: nothing is at {visible(endpoint.url)}: {told}",
            hint="Most addresses end in /v1.",
        )
    return EndpointError(f"{name}: the request was refused (HTTP {status}): {told}")


def told_error(endpoint: Endpoint, told: Any, key: str, *, has_begun: bool) -> LocalPagedError:
    """Return the error that the server tells of in its stream."""
    text = told_by(json.dumps(told).encode(), key)
    if _TOO_LONG.search(text) and not has_begun:
        return refused(endpoint, 400, "", json.dumps(told).encode(), key)
    hint = KEPT if has_begun else ""
    return EndpointError(f"{visible(endpoint.name)}: the server says: {text}", hint=hint)


def told_by(body: bytes, key: str) -> str:
    """Return what a server says of an error, as one short line without the key."""
    text = body.decode("utf-8", errors="replace")
    # plain text is a message, too
    with contextlib.suppress(ValueError, RecursionError):
        text = _message(json.loads(text)) or text
    line = visible(" ".join(without_key(text, key).split()))
    if len(line) > SHOWN_CHARS:
        line = f"{line[: SHOWN_CHARS - 1]}…"
    return line or "it says nothing."


def _no_entry(endpoint: Endpoint, status: int, told: str) -> EndpointError:
    name = visible(endpoint.name)
    if not endpoint.has_key:
        return EndpointError(
            f"{name}: the server wants a key (HTTP {status}): {told}",
            hint="Give it a [remote.NAME] section in the config file with key_env = VARIABLE.",
        )
    where = visible(endpoint.key_env or endpoint.key_keyring)
    return EndpointError(
        f"{name}: the server does not accept the key (HTTP {status}): {told}",
        hint=f"The key comes from {where}.",
    )


def _message(told: Any) -> str:
    """Find the message in the shapes that servers give an error."""
    for name in ("error", "message", "detail"):
        if isinstance(told, dict) and told.get(name):
            told = told[name]
    if isinstance(told, list) and told and isinstance(told[0], dict):
        told = told[0].get("msg", told)
    return told if isinstance(told, str) else json.dumps(told)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
