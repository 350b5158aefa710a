"""Collector: puts snapshots together from what a Source tells and what was seen before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

import psutil

from localpaged.engine.inspection import Inspection
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.stats.block_cells import block_map
from localpaged.stats.prefixes import chats_of, tree_of
from localpaged.stats.protocol import CHATS, MAP, TREE
from localpaged.stats.schema import (
    HISTORY_POINTS,
    HostTier,
    Memory,
    ModelStats,
    Program,
    Snapshot,
)
from localpaged.stats.source import Source
from localpaged.stats.watch import ModelWatch, blocks_of, num_waiting, slots_of


class Collector:
    """The stats thread only. `sample` once a second, `snapshot` when somebody asks.

    `clock` is the engine's.
    """

    def __init__(
        self,
        source: Source,
        program: Program,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.program = program
        self._source = source
        self._clock = clock
        self._process = psutil.Process()
        self._rss: deque[float | None] = deque(maxlen=HISTORY_POINTS)
        self._sampled_s: float | None = None
        self._watches: dict[str, ModelWatch] = {}

    def sample(self) -> None:
        """Add a point to every history."""
        self._rss.append(float(self._process.memory_info().rss))
        for snapshot, watch in self.watched().values():
            watch.sample(snapshot, now_s=self._clock())
        self._sampled_s = self._clock()

    def watched(self) -> Mapping[str, tuple[EngineSnapshot, ModelWatch]]:
        """Return the latest picture of each loaded model, and what was seen of it."""
        found = {}
        for name in self._source.models():
            if name not in self._watches:
                self._watches[name] = ModelWatch(since_s=self._sampled_s)
            found[name] = (self._source.snapshot(name), self._watches[name])
        return found

    def snapshot(self, details: frozenset[str], inspections: Mapping[str, Inspection]) -> Snapshot:
        """Return all there is to tell; `inspections` by what the engine calls the model."""
        memory = psutil.virtual_memory()
        watched = self.watched()
        # with models on several cards it is the first one's
        card = next((s for s, _ in watched.values() if s.device_total_bytes is not None), None)
        return Snapshot(
            program=self.program,
            taken_at=time.time(),
            memory=Memory(
                rss_bytes=self._process.memory_info().rss,
                system_total_bytes=memory.total,
                system_free_bytes=memory.available,
                device_total_bytes=card.device_total_bytes if card else None,
                device_free_bytes=card.device_free_bytes if card else None,
            ),
            models=tuple(
                self._model(name, snapshot, watch, details, inspections.get(name))
                for name, (snapshot, watch) in watched.items()
            ),
            loading=tuple(self._source.loading()),
            rss_bytes_history=tuple(self._rss),
        )

    def _model(
        self,
        name: str,
        snapshot: EngineSnapshot,
        watch: ModelWatch,
        details: frozenset[str],
        inspection: Inspection | None,
    ) -> ModelStats:
        ttft, inter_token = watch.latencies(snapshot)
        waiting = num_waiting(snapshot)
        chats, num_chats = (
            chats_of(snapshot, inspection, self._source.titles) if CHATS in details else ((), 0)
        )
        return ModelStats(
            name=snapshot.model_name or name,
            device=snapshot.device,
            weights_bytes=snapshot.weight_bytes,
            blocks=blocks_of(snapshot),
            slots=slots_of(snapshot),
            host=HostTier(snapshot.host_total_blocks, snapshot.host_used_blocks),
            running=len(snapshot.sequences) - waiting,
            queue_length=waiting,
            rates=watch.rates,
            ttft=ttft,
            inter_token=inter_token,
            totals=watch.totals(snapshot),
            history=watch.history(),
            chats=chats,
            num_chats=num_chats,
            tree=tree_of(inspection) if inspection is not None and TREE in details else None,
            block_map=block_map(inspection) if inspection is not None and MAP in details else None,
            runner_note=snapshot.runner_note,
            dtype=snapshot.dtype,
        )
