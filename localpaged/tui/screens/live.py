"""Screens that lie over the chat and move by themselves."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.tui.workspace import Changes


@runtime_checkable
class LiveScreen(Protocol):
    """A screen that is drawn at the coordinator's pace while it is the uppermost one."""

    @property
    def is_there(self) -> bool:
        """Whether it may be drawn."""

    def beat(self, snapshot: EngineSnapshot, changes: Changes) -> bool:
        """Draw what changed; return whether something moves by itself. UI thread."""
