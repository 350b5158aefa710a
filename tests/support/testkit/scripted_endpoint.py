"""An HTTP server that answers as a test says: well, slowly, badly, or not to the end."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Piece = bytes | Callable[["Talk"], None]
"""What is sent next, or what happens before the next is."""


@dataclass(slots=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class Talk:
    """One connection while it is answered."""

    connection: socket.socket
    endpoint: ScriptedEndpoint


@dataclass(eq=False)
class ScriptedEndpoint:
    """Answers the list of models by itself, and each POST with the next reply; the last repeats.

    A reply is pieces of raw HTTP. `close` ends it.
    """

    replies: list[Sequence[Piece]] = field(default_factory=list)
    models: Sequence[Piece] | None = None
    asked: list[Asked] = field(default_factory=list)
    was_left: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    address: str = "127.0.0.1:0"

    def __post_init__(self) -> None:
        host, _, port = self.address.partition(":")
        self._socket = socket.create_server((host, int(port)))
        self._num_posts = 0
        self._is_closed = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    @property
    def posts(self) -> list[Asked]:
        """The requests for answers."""
        return [asked for asked in self.asked if asked.method == "POST"]

    def close(self) -> None:
        """Stop listening, and let go whoever waits."""
        self._is_closed.set()
        self.go_on.set()
        self._socket.close()

    def __enter__(self) -> ScriptedEndpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _serve(self) -> None:
        while not self._is_closed.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            asked = _read(connection)
            if asked is None:
                return
            self.asked.append(asked)
            talk = Talk(connection, self)
            for piece in self._reply(asked):
                try:
                    if isinstance(piece, bytes):
                        connection.sendall(piece)
                    else:
                        piece(talk)
                except OSError:
                    self.was_left.set()
                    return

    def _reply(self, asked: Asked) -> Sequence[Piece]:
        if asked.method == "GET":
            return self.models or model_list("m1")
        reply = self.replies[min(self._num_posts, len(self.replies) - 1)]
        self._num_posts += 1
        return reply

    @property
    def is_closed(self) -> bool:
        """Whether the test is over."""
        return self._is_closed.is_set()


def hold(talk: Talk) -> None:
    """Send nothing until the test says so or the client leaves."""
    endpoint = talk.endpoint
    while not endpoint.go_on.is_set():
        ready, _, _ = select.select([talk.connection], [], [], 0.01)
        if ready and not talk.connection.recv(1, socket.MSG_PEEK):
            endpoint.was_left.set()
            raise OSError("the client is gone")


def reset(talk: Talk) -> None:
    """Break the connection off, as a killed server does."""
    linger = b"\1\0\0\0\0\0\0\0"
    talk.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    raise OSError("broken off")


def reply(status: int, body: bytes, kind: str = "application/json", **headers: str) -> list[Piece]:
    """A whole answer; `retry_after` is the header retry-after."""
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {kind}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"content-length: {len(body)}", "", ""]
    return ["\r\n".join(lines).encode() + body]


def json_reply(status: int, value: Any, **headers: str) -> list[Piece]:
    """A whole answer in JSON."""
    return reply(status, json.dumps(value).encode(), **headers)


def model_list(*ids: str, owned_by: str = "somebody", **more: Any) -> list[Piece]:
    """The list of models."""
    data = [{"id": id_, "object": "model", "owned_by": owned_by, **more} for id_ in ids]
    return json_reply(200, {"object": "list", "data": data})


STREAM_HEAD = b"\r\n".join(
    (
        b"HTTP/1.1 200 OK",
        b"content-type: text/event-stream; charset=utf-8",
        b"connection: close",
        b"",
        b"",
    )
)


def event(value: Any) -> bytes:
    """One event of a stream."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"data: {text}\n\n".encode()


def delta(reason: str | None = None, **texts: Any) -> bytes:
    """One piece of an answer."""
    return event({"choices": [{"index": 0, "delta": texts, "finish_reason": reason}]})


def usage(prompt: int, completion: int, cached: int | None = None) -> bytes:
    """What the answer cost."""
    told: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    if cached is not None:
        told["prompt_tokens_details"] = {"cached_tokens": cached}
    return event({"choices": [], "usage": told})


def stream(*pieces: Piece | str, reason: str = "stop", end: Sequence[Piece] = ()) -> list[Piece]:
    """A streamed answer: texts become pieces of it."""
    sent = [delta(content=piece) if isinstance(piece, str) else piece for piece in pieces]
    return [STREAM_HEAD, delta(role="assistant"), *sent, delta(reason), *end, event("[DONE]")]


def _read(connection: socket.socket) -> Asked | None:
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65_536)
        if not part:
            return None
        if part.startswith(b"\x16"):  # TLS, which is not spoken here
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return None
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = dict(_headers(lines))
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65_536)
    return Asked(method, path, headers, json.loads(body) if body else None)


def _headers(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, value = line.partition(":")
        yield name.strip().lower(), value.strip()
