"""The readers of a program's stats: their sockets, what they ask, what still has to be sent."""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from localpaged.errors import LocalPagedError
from localpaged.stats.protocol import (
    MAX_REQUEST_BYTES,
    failure,
    line_of,
    read_request,
)

MAX_READERS = 64
SEND_LIMIT_S = 10.0
"""A reader that takes nothing of its answer for so long is dropped."""
_READ_BYTES = 4_096
_NO_ROOM_PAUSE_S = 0.05

log = logging.getLogger(__name__)


class Reader:
    """One connection. Asks one thing at a time: what it sends meanwhile waits in the kernel."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.to_send = b""
        self.send_by_s = 0.0
        self.active_s = time.monotonic()


class Connections:
    """Non-blocking sockets behind one selector. The stats thread only.

    Invariant: at most MAX_READERS, of which a new one takes the place that asked nothing for the
    longest time; each is read from, written to or waits for its answer, and no
    more than a request and an answer are kept of it. Whoever breaks a rule is dropped alone.
    """

    def __init__(
        self,
        listener: socket.socket | None,
        greeting: bytes,
        *,
        on_request: Callable[[Reader, frozenset[str]], None],
    ) -> None:
        self._listener: socket.socket | None = None
        self._greeting = greeting
        self._on_request = on_request
        self._selector = selectors.DefaultSelector()
        self._readers: set[Reader] = set()
        if listener is not None:
            self.listen(listener)

    @property
    def count(self) -> int:
        """How many readers there are."""
        return len(self._readers)

    def listen(self, listener: socket.socket) -> None:
        """Take readers from a socket that listens, instead of the one before; readers stay."""
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
        self._listener = listener
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def also_watch(self, wake: socket.socket) -> None:
        """Let `serve` return, too, when `wake` can be read; it is emptied."""
        wake.setblocking(False)
        self._selector.register(wake, selectors.EVENT_READ)

    def serve(self, *, timeout_s: float) -> None:
        """Wait for something to happen, and do it; return after `timeout_s` at the latest."""
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                self._accept(self._listener)
            elif key.data is None:
                with suppress(OSError):
                    key.fileobj.recv(_READ_BYTES)  # type: ignore[union-attr]
            else:
                self._advance(key.data)
        now_s = time.monotonic()
        for reader in [r for r in self._readers if r.to_send and r.send_by_s < now_s]:
            self.drop(reader)

    def answer(self, reader: Reader, line: bytes) -> None:
        """Send an answer to a reader that waits for one; nothing to do if it is gone."""
        if reader in self._readers:
            self._send(reader, line)

    def drop(self, reader: Reader) -> None:
        """End a connection."""
        self._readers.discard(reader)
        with suppress(KeyError, ValueError):
            self._selector.unregister(reader.connection)
        reader.connection.close()

    def close(self) -> None:
        """End all."""
        for reader in list(self._readers):
            self.drop(reader)
        self._selector.close()
        if self._listener is not None:
            self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return  # it has gone again
        except OSError:
            # no descriptors are left: it stays in the queue, and must not be asked for at once
            time.sleep(_NO_ROOM_PAUSE_S)
            return
        if len(self._readers) >= MAX_READERS:
            self.drop(min(self._readers, key=lambda reader: reader.active_s))
        connection.setblocking(False)
        reader = Reader(connection)
        self._readers.add(reader)
        self._selector.register(connection, selectors.EVENT_READ, reader)
        self._send(reader, self._greeting)

    def _advance(self, reader: Reader) -> None:
        if reader not in self._readers:
            return
        try:
            if reader.to_send:
                self._go_on_sending(reader)
            else:
                self._receive(reader)
        except BlockingIOError:
            return
        except OSError:
            self.drop(reader)
        except Exception:  # one reader must not end the others
            log.exception("a reader of stats could not be answered")
            self.drop(reader)

    def _receive(self, reader: Reader) -> None:
        data = reader.connection.recv(_READ_BYTES)
        if not data:
            self.drop(reader)
            return
        reader.received += data
        self._take_request(reader)

    def _take_request(self, reader: Reader) -> None:
        line, newline, rest = reader.received.partition(b"\n")
        if len(line) > MAX_REQUEST_BYTES:
            self.drop(reader)
            return
        if not newline:
            return
        reader.received = rest
        try:
            details = read_request(line)
        except LocalPagedError as error:
            self._send(reader, line_of(failure(error)))
            return
        reader.active_s = time.monotonic()
        self._watch(reader, 0)
        self._on_request(reader, details)

    def _send(self, reader: Reader, line: bytes) -> None:
        reader.to_send += line
        reader.send_by_s = time.monotonic() + SEND_LIMIT_S
        self._watch(reader, selectors.EVENT_WRITE)

    def _go_on_sending(self, reader: Reader) -> None:
        num_sent = reader.connection.send(reader.to_send)
        reader.to_send = reader.to_send[num_sent:]
        reader.send_by_s = time.monotonic() + SEND_LIMIT_S
        if not reader.to_send:
            self._watch(reader, selectors.EVENT_READ)
            self._take_request(reader)

    def _watch(self, reader: Reader, events: int) -> None:
        """Wait for `events` of a reader; for none, it is not looked at."""
        with suppress(KeyError):
            self._selector.unregister(reader.connection)
        if events:
            self._selector.register(reader.connection, events, reader)
