"""GpuRunner: steps on a GPU, decode steps as graphs, each begun before the last one is heard of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from localpaged.engine.device import DeviceLayer, Ticket
from localpaged.engine.device_sampler import (
    Decided,
    DeviceSampler,
    DrawKernel,
    read_plain,
    triton_draws,
)
from localpaged.engine.flight import Flight
from localpaged.engine.graphs import DecodeGraphs
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.mixed_batch import upload_mixed
from localpaged.engine.model import PagedModel
from localpaged.engine.packed import Field, Layout
from localpaged.engine.prompt_scoring import score_later
from localpaged.engine.sides import Side, Sides
from localpaged.engine.static_batch import StaticBatch
from localpaged.engine.static_chunk import StaticChunk
from localpaged.engine.step_plan import PlannedRow, RowResult, SequenceId, StepPlan, StepResult

SHORT_CHUNK = 64
"""Tokens up to which a chunk costs little more than one: the rows that read weights together."""

Read = Callable[[Mapping[str, np.ndarray]], list[RowResult | None]]


class DeviceFlight:
    """A step on the device. Engine thread only.

    `places` tells where among the device's draws each sequence's token is.
    """

    def __init__(
        self,
        ticket: Ticket,
        layout: Layout,
        read: Read,
        *,
        places: Mapping[SequenceId, int],
        swap_s: float,
    ) -> None:
        self.places = places
        self._ticket = ticket
        self._layout = layout
        self._read = read
        self._swap_s = swap_s
        self._piece: torch.Tensor | None = None

    @property
    def has_draws(self) -> bool:
        """See Flight."""
        return bool(self.places)

    def land(self) -> None:
        """Wait until the step is over; nothing if that was done."""
        if self._piece is None:
            self._piece = self._ticket.wait()

    def wait(self) -> StepResult:
        """See Flight."""
        self.land()
        assert self._piece is not None
        rows = self._read(self._layout.arrays(self._piece))
        return StepResult(tuple(rows), swap_s=self._swap_s)


class GpuRunner:
    """A FlyingRunner. Engine thread only; holds no state of any request but the latest draws.

    `context_blocks` are those of the longest sequence, `max_rows` the most that decode together.
    `padding_ids` are the logits that stand for no token. Chunks of up to `short_chunk` tokens that
    are alone in their step have a graph of their own. Without `has_graphs` operators are launched
    one by one, without `has_cascade` nobody attends to a shared beginning together.
    """

    def __init__(
        self,
        model: PagedModel,
        kv: KVStorage,
        device: DeviceLayer,
        *,
        context_blocks: int,
        max_rows: int,
        vocab_size: int,
        padding_ids: Sequence[int] = (),
        has_graphs: bool = True,
        has_cascade: bool = True,
        short_chunk: int | None = None,
        draw: DrawKernel = triton_draws,
    ) -> None:
        self._model = model
        self._kv = kv
        self._device = device
        self._has_graphs = has_graphs
        self._has_cascade = has_cascade
        self._static = StaticBatch(
            device,
            max_rows=max_rows,
            table_width=context_blocks,
            block_size=kv.block_size,
            vocab_size=vocab_size,
            has_cascade=has_cascade,
        )
        self._sides = Sides(device)
        self._sampler = DeviceSampler(device.torch_device, padding_ids=padding_ids, draw=draw)
        self._logits = torch.zeros(max_rows, vocab_size, device=device.torch_device)
        self._graphs = DecodeGraphs(
            device, self._decode, max_rows=max_rows, address=self._kv_address
        )
        self._chunk = StaticChunk(
            device,
            num_queries=SHORT_CHUNK if short_chunk is None else short_chunk,
            table_width=context_blocks,
            block_size=kv.block_size,
        )
        self._chunk_graph = DecodeGraphs(
            device, self._read_chunk, max_rows=1, address=self._kv_address
        )

    @property
    def note(self) -> str:
        """Why decode steps are no graphs; empty where they are."""
        if not self._has_graphs:
            return "CUDA graphs are switched off."
        return self._graphs.note or self._chunk_graph.note

    @property
    def num_graphs(self) -> int:
        """Graphs that were recorded since the start, those that were given up included."""
        return self._graphs.num_captures + self._chunk_graph.num_captures

    def warm_up(self) -> None:
        """Record the step of one row, which compiles its kernels, too; at the end of loading."""
        if not self._has_graphs:
            return
        with torch.inference_mode(), self._device.step():
            side = self._sides.take()
            self._static.upload(side, (), count=1, places={})
            self._graphs.run(1, has_groups=False)
            side.user = self._download(
                side, self._static.results_layout, self._static.results, lambda host: []
            )

    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens and sample its sampled rows."""
        return self.launch(plan).wait()

    def launch(self, plan: StepPlan, *, after: Flight | None = None) -> DeviceFlight:
        """See FlyingRunner."""
        assert after is None or isinstance(after, DeviceFlight)
        places = {} if after is None else after.places
        with torch.inference_mode(), self._device.step():
            if plan.pool_blocks is not None:
                self._kv.grow(plan.pool_blocks)
            # In this order: each reads what the next ones, and at last the rows, may write. What is
            # behind a row's end needs no clearing: kernels do not read it.
            started_s = time.perf_counter()
            self._kv.swap_out(plan.swap_outs)
            self._kv.swap_in(plan.swap_ins)
            swap_s = time.perf_counter() - started_s
            self._kv.apply(plan.copies)
            if self._has_graphs and self._chunk.takes(plan):
                return self._launch_chunk(plan, swap_s=swap_s)
            size = None
            if self._has_graphs and all(_is_decode(row) for row in plan.rows):
                size = self._graphs.size_for(len(plan.rows))
            if size is None:
                return self._launch_mixed(plan, places, swap_s=swap_s)
            return self._launch_decode(plan, places, size=size, swap_s=swap_s)

    def _launch_decode(
        self, plan: StepPlan, places: Mapping[SequenceId, int], *, size: int, swap_s: float
    ) -> DeviceFlight:
        static, rows = self._static, plan.rows
        side = self._sides.take()
        has_groups = static.upload(side, rows, count=size, places=places)
        self._graphs.run(size, has_groups=has_groups)
        own: Mapping[SequenceId, int] = {}
        if all(row.is_plain for row in rows):
            layout, piece = static.results_layout, static.results
            own = {row.sequence_id: i for i, row in enumerate(rows)}

            def read(host: Mapping[str, np.ndarray]) -> list[RowResult | None]:
                return [*read_plain(rows, host["tokens"], host["sound"])]

        else:
            draws = static.inputs(size).draws
            decided = self._sampler.decide(self._logits[: len(rows)], rows, draws, None)
            layout, piece = _packed(decided.tensors)

            def read(host: Mapping[str, np.ndarray]) -> list[RowResult | None]:
                return [*decided.finish(host)]

        side.user = flight = self._download(side, layout, piece, read, places=own, swap_s=swap_s)
        return flight

    def _decode(self, size: int, has_groups: bool) -> None:
        """A step of `size` rows on static memory: what graphs record."""
        static = self._static
        hidden = self._model.forward(static.batch(size, has_groups=has_groups), self._kv)
        logits = self._logits[:size]
        logits.copy_(self._model.logits(hidden))
        self._sampler.draw(
            static.tokens[:size], static.sound[:size], logits, static.inputs(size).draws
        )

    def _launch_chunk(self, plan: StepPlan, *, swap_s: float) -> DeviceFlight:
        side = self._sides.take()
        self._chunk.upload(side, plan.rows[0])
        self._chunk_graph.run(1, has_groups=False)
        decided = self._sampler.decide(self._logits[:1], plan.rows, self._chunk.draws, None)
        layout, piece = _packed(decided.tensors)

        def read(host: Mapping[str, np.ndarray]) -> list[RowResult | None]:
            return [*decided.finish(host)]

        side.user = flight = self._download(side, layout, piece, read, swap_s=swap_s)
        return flight

    def _read_chunk(self, size: int, has_groups: bool) -> None:
        """A step of one short chunk on static memory: what its graph records."""
        del size, has_groups  # one row, alone
        batch = self._chunk.batch()
        hidden = self._model.forward(batch, self._kv)
        logits = self._logits[:1]
        logits.copy_(self._model.logits(hidden.index_select(0, batch.sampled_tokens)))
        self._sampler.pad(logits)

    def _launch_mixed(
        self, plan: StepPlan, places: Mapping[SequenceId, int], *, swap_s: float
    ) -> DeviceFlight:
        side = self._sides.take()
        mixed = upload_mixed(
            self._device,
            side,
            plan.rows,
            block_size=self._kv.block_size,
            drawn=self._static.tokens,
            places=places,
            has_cascade=self._has_cascade,
        )
        hidden = self._model.forward(mixed.batch, self._kv)
        deciding = [i for i, row in enumerate(plan.rows) if row.needs_logits]
        rows = [plan.rows[i] for i in deciding]
        decided = Decided({}, lambda host: [])
        if deciding:
            logits = self._model.logits(hidden[mixed.batch.sampled_tokens])
            self._sampler.pad(logits)
            decided = self._sampler.decide(logits, rows, mixed.draws, mixed.places)
        scored = score_later(hidden, plan.rows, self._model.logits, self._sampler.pad)
        tensors = {**decided.tensors, **scored.tensors}
        # Where nothing is asked for, what comes back tells that the step is over.
        layout, piece = _packed(tensors or {"sound": self._static.sound})

        def read(host: Mapping[str, np.ndarray]) -> list[RowResult | None]:
            results: list[RowResult | None] = [None] * len(plan.rows)
            for i, result in zip(deciding, decided.finish(host), strict=True):
                results[i] = result
            return scored.add_to(results, host)

        own = self._keep_draws(plan, decided)
        side.user = flight = self._download(side, layout, piece, read, places=own, swap_s=swap_s)
        return flight

    def _keep_draws(self, plan: StepPlan, decided: Decided) -> Mapping[SequenceId, int]:
        """Leave tokens where the next step may look for them; tell where each sequence's is."""
        if not all(row.is_plain for row in plan.rows) or len(plan.rows) > self._static.max_rows:
            return {}
        tokens = decided.tensors["tokens"]
        self._static.tokens[: len(tokens)].copy_(tokens)
        return {row.sequence_id: i for i, row in enumerate(plan.rows)}

    def _download(
        self,
        side: Side,
        layout: Layout,
        piece: torch.Tensor,
        read: Read,
        *,
        places: Mapping[SequenceId, int] | None = None,
        swap_s: float = 0.0,
    ) -> DeviceFlight:
        ticket = self._device.download(piece, side.down(layout.num_bytes))
        return DeviceFlight(ticket, layout, read, places=places or {}, swap_s=swap_s)

    def _kv_address(self) -> object:
        """Return what changes when the KV moves."""
        layer = self._kv.layers[0]
        scales = 0 if layer.scales is None else layer.scales.data_ptr()
        return layer.numbers.data_ptr(), scales, tuple(layer.numbers.shape)


def _is_decode(row: PlannedRow) -> bool:
    """Return whether a row is one token and one draw, which is what graphs have room for."""
    return len(row.token_ids) == len(row.draws) == 1 and row.prompt_scores is None


def _packed(tensors: Mapping[str, torch.Tensor]) -> tuple[Layout, torch.Tensor]:
    """Return all of `tensors` in one piece."""
    named = {name: t.to(torch.int8) if t.dtype == torch.bool else t for name, t in tensors.items()}
    layout = Layout([Field(name, t.dtype, tuple(t.shape)) for name, t in named.items()])
    piece = torch.empty(
        layout.num_bytes, dtype=torch.uint8, device=next(iter(named.values())).device
    )
    for name, place in layout.tensors(piece).items():
        place.copy_(named[name])
    return layout, piece
