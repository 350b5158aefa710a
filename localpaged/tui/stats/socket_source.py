"""The programs that run on this machine, through their sockets."""

from __future__ import annotations

from localpaged.errors import EngineGone, StatsError
from localpaged.stats.reader import StatsReader, engine_sockets
from localpaged.stats.schema import Snapshot

TIMEOUT_S = 2.0
"""How long a program may take to answer; leaving the dashboard waits for it, too."""


class SocketSource:
    """A StatsSource that keeps a connection to each program. One thread at a time.

    Invariant: `_readers` are connections that had no error yet, by the names of their sockets.
    """

    def __init__(self) -> None:
        self._readers: dict[str, StatsReader] = {}
        self._failures: dict[str, StatsError] = {}

    def engines(self) -> tuple[str, ...]:
        """See StatsSource. A program that does not answer is among them: reading it tells why."""
        sockets = {path.stem: path for path in engine_sockets()}
        for name in [name for name in self._readers if name not in sockets]:
            self._drop(name)
        self._failures.clear()
        for name, path in sockets.items():
            if name not in self._readers:
                try:
                    self._readers[name] = StatsReader(path, timeout_s=TIMEOUT_S)
                except EngineGone:
                    continue
                except StatsError as error:
                    self._failures[name] = error
        # what cannot say when it was started is the last choice
        known = sorted(self._readers, key=lambda each: self._readers[each].greeting.started_at)
        return (*sorted(self._failures), *known)

    def read(self, engine: str, details: frozenset[str]) -> Snapshot:
        """See StatsSource."""
        if engine in self._failures:
            raise self._failures[engine]
        reader = self._readers.get(engine)
        if reader is None:
            raise EngineGone()
        try:
            return reader.snapshot(details)
        except StatsError:
            self._drop(engine)
            raise

    def close(self) -> None:
        """End all connections."""
        for name in list(self._readers):
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._readers.pop(name).close()
