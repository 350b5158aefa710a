"""What chats take of the engine's memory: those that run at once, the others now and then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import LocalPagedError
from localpaged.tui.awaited import Awaited
from localpaged.tui.fork_tree import NO_COSTS, Cost, costs_of

if TYPE_CHECKING:
    from localpaged.engine.inspection import Inspection

LOOK_EVERY_S = 2.0


class CostWatch:
    """Follows the memory of the default model. UI thread only.

    Invariant: at most one look at the blocks is under way, and none is taken while the engine does
    nothing.
    """

    def __init__(self) -> None:
        self._kept: Mapping[str, Cost] = NO_COSTS
        self._seen_steps = 0
        self._next_look_s = 0.0
        self._is_looking = False

    def of(self, snapshot: EngineSnapshot) -> Mapping[str, Cost]:
        """Return the blocks of every chat that has any."""
        running = costs_of(snapshot)
        return {**self._kept, **running} if running else self._kept

    def follow(
        self,
        snapshot: EngineSnapshot,
        inspect: Callable[[], Future[Inspection]],
        awaited: Awaited,
        *,
        now_s: float,
        has_ended: bool,
    ) -> None:
        """Look at the blocks again if they may have changed since, and soon after an end."""
        is_due = has_ended or now_s >= self._next_look_s
        if self._is_looking or not is_due or snapshot.steps == self._seen_steps:
            return
        self._seen_steps = snapshot.steps
        self._next_look_s = now_s + LOOK_EVERY_S
        self._is_looking = True
        awaited.when_done(inspect(), self._seen, self._gone)

    def _seen(self, inspection: Inspection) -> None:
        self._take(costs_in(inspection))

    def _gone(self, error: LocalPagedError) -> None:
        # there is no memory without an engine; that it is gone is told elsewhere
        self._take(NO_COSTS)

    def _take(self, costs: Mapping[str, Cost]) -> None:
        self._is_looking = False
        self._kept = costs


def costs_in(inspection: Inspection) -> Mapping[str, Cost]:
    """Return the full blocks that each chat has in memory, whether it runs or not."""
    own: dict[str, int] = defaultdict(int)
    shared: dict[str, int] = defaultdict(int)
    for node in inspection.nodes:
        blocks = own if len(node.chats) == 1 else shared
        for chat_id in node.chats:
            blocks[chat_id] += len(node.blocks)
    return {chat_id: Cost(own[chat_id], shared[chat_id]) for chat_id in {*own, *shared}}
