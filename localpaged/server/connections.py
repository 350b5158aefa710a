"""Connections that end by themselves: who sends no request, or takes no answer, is let go."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from typing import Any, ClassVar

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from localpaged.errors import ConfigError

MAX_CONNECTIONS = 512


class LimitedProtocol(H11Protocol):
    """uvicorn's protocol with a limit of connections and two in seconds. Loop's thread.

    What is more than `most` connections is closed at once: each takes a descriptor from the engine,
    the history and, with `chat --serve`, the chat.

    A request must be there within `read_s` of the connection's beginning or, later, of its own, and
    so must the rest of a body that was answered unread. A reader that takes nothing of what waits
    for it for `stall_s` is cut off, which ends its request.
    """

    most: ClassVar[int]
    read_s: ClassVar[float]
    stall_s: ClassVar[float]

    def __init__(self, config: Config, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self._silence: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.most:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what came; what is no whole request by now has `read_s` to become one."""
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Tell that what came is no HTTP, or only close where an answer has gone out already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        for timer in (self._silence, self._stall):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """What was sent waits for its reader."""
        super().pause_writing()
        self._stall = self.loop.call_later(self.stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        """The reader goes on."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _watch(self) -> None:
        # Between requests uvicorn waits for a first byte; from then on for ever.
        if not self._is_answering:
            self._silence = self._silence or self.loop.call_later(self.read_s, self._close_silent)
        elif self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _close_silent(self) -> None:
        if not self._is_answering:
            self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def protocol_with(*, read_s: float, stall_s: float) -> type[LimitedProtocol]:
    """Return the protocol with these limits, and as many connections as leave room for others."""
    # half of what the system lets this process open
    most = min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    limits = {"most": most, "read_s": read_s, "stall_s": stall_s}
    return type("Protocol", (LimitedProtocol,), limits)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes any that is free. Raises ConfigError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigError(f"{host} is not a name of this machine.") from error
    # one address, and of a name's two families the one that clients try first or fall back to
    family, kind, protocol, _, address = min(found, key=lambda each: each[0])
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise _unusable(host, port, error) from error
    bound.setblocking(False)
    return bound


def _unusable(host: str, port: int, error: OSError) -> ConfigError:

    hint = "Choose another port, or 0 for any that is free."
    match error.errno:
        case errno.EADDRINUSE:
            return ConfigError(f"Port {port} of {host} is in use already.", hint=hint)
        case errno.EACCES:
            return ConfigError(f"You may not listen on port {port}.", hint=hint)
        case errno.EADDRNOTAVAIL:
            return ConfigError(f"{host} is not an address of this machine.")
    return ConfigError(f"{host}:{port} cannot be listened on: {error.strerror}.")
