"""DecodeGraphs: decode steps that were recorded once and are replayed, one for each batch size."""

from __future__ import annotations

import logging
from collections.abc import Callable

from localpaged.engine.device import CaptureFailed, DeviceLayer, Replayable

MAX_GRAPHS = 8

log = logging.getLogger(__name__)


def graph_sizes(max_rows: int) -> tuple[int, ...]:
    """Return the batch sizes that are recorded: one row, and the largest powers of two.

    A step takes the least that it fits in. The largest is `max_rows`, whatever that is.
    """
    powers = [1 << bit for bit in range(max_rows.bit_length()) if 1 << bit < max_rows]
    sizes = [*powers, max_rows]
    return tuple(sizes if len(sizes) <= MAX_GRAPHS else [1, *sizes[1 - MAX_GRAPHS :]])


class DecodeGraphs:
    """Records a step when it is first needed. Engine thread only.

    `work(size, has_groups)` is a step on static memory; there is a graph for rows that share a
    beginning and one for those that do not. Graphs hold addresses of the KV, so they are given up
    when `address()` is another one than when they were recorded. After a step could not be recorded
    no other is tried: `note` then says why steps without a graph go operator by operator. They
    do so, too, where `limit` graphs are there.
    """

    def __init__(
        self,
        device: DeviceLayer,
        work: Callable[[int, bool], None],
        *,
        max_rows: int,
        address: Callable[[], object],
    ) -> None:
        self.sizes = graph_sizes(max_rows)
        self.note = ""
        self.num_captures = 0
        self.limit: int | None = None
        self._device = device
        self._work = work
        self._address = address
        self._recorded_at: object = None
        self._graphs: dict[tuple[int, bool], Replayable] = {}

    def size_for(self, num_rows: int) -> int | None:
        """Return the size of the graph for so many rows; None for more than there are."""
        return next((size for size in self.sizes if size >= num_rows), None)

    def run(self, size: int, *, has_groups: bool) -> None:
        """Do the step whose input was brought to static memory; raises what breaks it."""
        self._give_up_stale()
        key = (size, has_groups)
        graph = self._graphs.get(key)
        if graph is not None:
            graph.replay()
            return
        if self.note or (self.limit is not None and len(self._graphs) >= self.limit):
            self._work(size, has_groups)
            return
        try:
            self._graphs[key] = self._device.capture(lambda: self._work(size, has_groups))
            self.num_captures += 1
        except CaptureFailed as error:
            log.warning("no graph of %d rows: %s", size, error)
            self.note = f"A decode step could not be recorded as a graph: {error}"

    def _give_up_stale(self) -> None:
        address = self._address()
        if address != self._recorded_at:
            self._recorded_at = address
            self._graphs.clear()
