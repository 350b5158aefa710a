"""The dashboard over the chat: what this program's engine does, and how that went on before."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual.binding import Binding, BindingType

from localpaged.stats.schema import Snapshot
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.keys import Action, key_of
from localpaged.tui.stats.keys import KEYS
from localpaged.tui.stats.screen import StatsScreen
from localpaged.tui.stats.socket_source import SocketSource
from localpaged.tui.stats.source import StatsSource
from localpaged.tui.stats.watch import Watch

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp


class ChatStatsScreen(StatsScreen):
    """What `localpaged stats` shows, of this very program first. UI thread only.

    Invariant: it has a source of its own, which is closed when it is left.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "step_back", "Back", show=False, priority=True),
        # the key that opened it, whichever the user gave it
        Binding("f4", "leave", "Back", id="stats", show=False, priority=True),
    ]

    def __init__(self, app: LocalPagedApp, glyphs: Glyphs) -> None:
        self._own_source = OneAtATime(SocketSource())
        super().__init__(
            app,
            self._own_source,
            watch=Watch(clock_s=time.time, engine=str(os.getpid())),
            glyphs=glyphs,
            clock_s=time.time,
            leave=self.action_leave,
            way_out="back",
        )

    @property
    def keys(self) -> Sequence[Action]:
        """See StatsScreen; the way out leads to the chat."""
        out = f"q Esc {key_of('stats')}"
        return [
            replace(key, label="Back to the chat", usual=out) if key.id == "quit" else key
            for key in KEYS
        ]

    def action_step_back(self) -> None:
        """From another view to the first one, from there to the chat."""
        if self.view == "overview":
            self.action_leave()
        else:
            self.show_view("overview")

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss()

    def on_unmount(self) -> None:
        """Close the source, after the look that may be under way."""
        threading.Thread(target=self._own_source.close, name="stats-close", daemon=True).start()


class ClosableSource(StatsSource, Protocol):
    """A source that whoever made it has to close."""

    def close(self) -> None:
        """End what is open."""


class OneAtATime:
    """A StatsSource for several threads: a look may still be under way when it is closed.

    Invariant: after `close` nothing is opened any more.
    """

    def __init__(self, source: ClosableSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._is_closed = False

    def engines(self) -> tuple[str, ...]:
        """See StatsSource."""
        with self._lock:
            return () if self._is_closed else self._source.engines()

    def read(self, engine: str, details: frozenset[str]) -> Snapshot:
        """See StatsSource."""
        with self._lock:
            return self._source.read(engine, details)

    def close(self) -> None:
        """Close the source when nobody looks."""
        with self._lock:
            self._is_closed = True
            self._source.close()
