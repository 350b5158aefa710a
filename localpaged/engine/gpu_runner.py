"""GpuRunner: steps on a GPU, decode steps as graphs, each begun before the last one is heard of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from localpaged.engine.device import DeviceLayer
from localpaged.engine.device_flight import Begun, DeviceFlight
from localpaged.engine.device_sampler import (
    Decided,
    DeviceSampler,
    DrawKernel,
    helpers,
    triton_draws,
)
from localpaged.engine.flight import Flight
from localpaged.engine.graphs import DecodeGraphs
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.mixed_batch import upload_mixed
from localpaged.engine.model import PagedModel
from localpaged.engine.params import SamplingParams
from localpaged.engine.prompt_scoring import scored_ids
from localpaged.engine.sides import Side, Sides
from localpaged.engine.static_batch import StaticBatch
from localpaged.engine.static_chunk import StaticChunk
from localpaged.engine.step_ends import StepEnds
from localpaged.engine.step_plan import PlannedRow, SequenceId, StepPlan, StepResult
from localpaged.engine.warm_up import (
    LEAST_CHUNK,
    chunk_row,
    is_decode,
    plain_row,
    steps_for_nobody,
)
from localpaged.freed_memory import give_back

SHORT_CHUNK = 64
"""Tokens up to which a chunk costs little more than one: the rows that read weights together."""

OnProgress = Callable[[int, int], None]
Rest = Callable[[Sequence[PlannedRow]], Begun]
"""Begins what follows a step's logits, for its rows with all that their draws follow from."""

FOR_NOBODY = SamplingParams(temperature=0.0)
"""How a row draws that has ended: its token is not looked at."""


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
        step_tokens: int = 512,
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
        self.graph_bytes = 0
        """What recording one step took of the device, once it was measured."""
        self._limit_note = ""
        self._sides = Sides(device)
        self._sampler = DeviceSampler(device.torch_device, padding_ids=padding_ids, draw=draw)
        self._ends = StepEnds(device, self._sampler, self._static, logits_of=model.logits)
        self._logits = torch.zeros(max_rows, vocab_size, device=device.torch_device)
        self._steps_for_nobody = steps_for_nobody(
            context_blocks=context_blocks,
            block_size=kv.block_size,
            step_tokens=step_tokens,
            vocab_size=vocab_size,
        )
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
        return self._graphs.note or self._chunk_graph.note or self._limit_note

    @property
    def num_graphs(self) -> int:
        """Graphs that were recorded since the start, those that were given up included."""
        return self._graphs.num_captures + self._chunk_graph.num_captures

    @property
    def most_graphs(self) -> int:
        """Graphs that there may be at once."""
        sizes = self._graphs.sizes
        shared = sum(size > 1 for size in sizes) if self._has_cascade else 0
        return len(sizes) + shared + 1 if self._has_graphs else 0

    def limit_graphs(self, count: int) -> None:
        """Record no more than `count` steps, one at least, as the device has room for no more."""
        count = max(count, 1)
        self._limit_note = (
            f"The card has room for {count} of {self.most_graphs} recorded steps; the others are"
            " started operator by operator."
        )
        self._graphs.limit = max(count - 1, 1)
        self._chunk_graph.limit = min(count - 1, 1)

    def warm_up(self, on_progress: OnProgress = lambda done, total: None) -> None:
        """Compile what steps need, and record the step of one row; at the end of loading.

        `on_progress` is told how many of how many parts are done.
        """
        parts = self._warm_parts()
        for number, part in enumerate(parts):
            on_progress(number, len(parts))
            part()
        on_progress(len(parts), len(parts))

    def _warm_parts(self) -> list[Callable[[], object]]:
        """Return what is done for nobody while loading; one part records the step of one row."""
        if not self._device.compiles:
            return [self.record] if self._has_graphs else []
        parts: list[Callable[[], object]] = []
        if self._has_graphs:
            parts += [
                partial(self._try, size, has_groups)
                for size in self._graphs.sizes
                for has_groups in (False, True)[: 1 + (self._has_cascade and size > 1)]
            ]
            parts += [self._try_chunk]
        wide = [step for step in self._steps_for_nobody if not is_decode(step)]
        parts += [partial(self.run, step) for step in wide]
        parts += [self._try_moves]
        if self._has_graphs:
            parts += [self.record]
        return parts + [partial(self.run, s) for s in self._steps_for_nobody if is_decode(s)]

    def record(self) -> None:
        """Record the step of one row and measure what that takes of the device."""
        give_back()
        before = self._device.free_bytes()
        row = plain_row(1, num_blocks=1, block_size=self._kv.block_size)
        for _ in range(2):  # some of it is taken when a graph is first replayed
            self.run(StepPlan((row,), ()))
        give_back()
        self.graph_bytes = max(before - self._device.free_bytes(), 0)

    def _try(self, size: int, has_groups: bool) -> None:
        """Do a decode step for nobody without recording it."""
        with torch.inference_mode(), self._device.step():
            self._static.upload(self._sides.take(), (), count=size, places={})
            self._decode(size, has_groups)

    def _try_chunk(self) -> None:
        """Do the step of a short chunk for nobody without recording it."""
        with torch.inference_mode(), self._device.step():
            self._chunk.upload(self._sides.take(), chunk_row(LEAST_CHUNK, num_blocks=1))
            self._read_chunk(1, False)
            # drafts and told prompts have logits of many rows
            self._model.logits(self._model.forward(self._chunk.batch(), self._kv))

    def _try_moves(self) -> None:
        """Move blocks that nobody has, and wait for all that was done."""
        with torch.inference_mode(), self._device.step():
            self._kv.warm_up()
        self._sides.everything.land()

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
            side = self._sides.take()
            side.user = flight = self._begin(side, plan, places, swap_s=swap_s)
            return flight

    def _begin(
        self, side: Side, plan: StepPlan, places: Mapping[SequenceId, int], *, swap_s: float
    ) -> DeviceFlight:
        if self._has_graphs and self._chunk.takes(plan):
            rest = self._begin_chunk(side, plan.rows[0])
        elif (size := self._graph_size(plan)) is None:
            rest = self._begin_mixed(side, plan.rows, places)
        else:
            rest = self._begin_decode(side, plan.rows, places, size=size)
        settle = self._sides.everything.land
        if any(row.is_open for row in plan.rows):
            later = self._later(rest)
            return DeviceFlight(None, rest=later, settle=settle, swap_s=swap_s)
        return DeviceFlight(rest(plan.rows), settle=settle, swap_s=swap_s)

    def _graph_size(self, plan: StepPlan) -> int | None:
        """Return the rows of the graph that a step takes; None where it takes none."""
        if self._has_graphs and all(row.is_decode for row in plan.rows):
            return self._graphs.size_for(len(plan.rows))
        return None

    def _later(self, rest: Rest) -> Rest:
        """Return the rest of a step that is begun when what its draws follow from is told."""

        def begin(rows: Sequence[PlannedRow]) -> Begun:
            told = [
                replace(row, is_open=False, sampling=FOR_NOBODY) if row.is_open else row
                for row in rows
            ]
            with torch.inference_mode(), self._device.step():
                return rest(told)

        return begin

    def _begin_decode(
        self,
        side: Side,
        rows: Sequence[PlannedRow],
        places: Mapping[SequenceId, int],
        *,
        size: int,
    ) -> Rest:
        static = self._static
        has_groups = static.upload(side, rows, count=size, places=places)
        self._graphs.run(size, has_groups=has_groups)

        def rest(rows: Sequence[PlannedRow]) -> Begun:
            if all(row.is_plain for row in rows):
                return self._ends.of_plain(side, rows)
            logits, draws = self._logits[: len(rows)], static.inputs(size).draws
            return self._ends.of_draws(side, rows, logits, draws)

        return rest

    def _decode(self, size: int, has_groups: bool) -> None:
        """A step of `size` rows on static memory: what graphs record."""
        static = self._static
        hidden = self._model.forward(static.batch(size, has_groups=has_groups), self._kv)
        logits = self._logits[:size]
        logits.copy_(self._model.logits(hidden))
        self._sampler.draw(
            static.tokens[:size], static.sound[:size], logits, static.inputs(size).draws
        )

    def _begin_chunk(self, side: Side, row: PlannedRow) -> Rest:
        self._chunk.upload(side, row)
        self._chunk_graph.run(1, has_groups=False)

        def rest(rows: Sequence[PlannedRow]) -> Begun:
            return self._ends.of_draws(side, rows, self._logits[:1], self._chunk.draws)

        return rest

    def _read_chunk(self, size: int, has_groups: bool) -> None:
        """A step of one short chunk on static memory: what its graph records."""
        del size, has_groups  # one row, alone
        batch = self._chunk.batch()
        hidden = self._model.forward(batch, self._kv)
        logits = self._logits[:1]
        logits.copy_(self._model.logits(hidden.index_select(0, batch.sampled_tokens)))
        self._sampler.pad(logits)

    def _begin_mixed(
        self, side: Side, rows: Sequence[PlannedRow], places: Mapping[SequenceId, int]
    ) -> Rest:
        is_open = any(row.is_open for row in rows)
        deciding = [i for i, row in enumerate(rows) if row.needs_logits]
        mixed = upload_mixed(
            self._device,
            side,
            rows,
            block_size=self._kv.block_size,
            drawn=self._static.tokens,
            places=places,
            # what is not known yet comes behind
            numbers=scored_ids(rows)
            if is_open
            else helpers([rows[i] for i in deciding]) | scored_ids(rows),
            has_cascade=self._has_cascade,
        )
        hidden = self._model.forward(mixed.batch, self._kv)
        logits = None
        if deciding:
            logits = self._model.logits(hidden[mixed.batch.sampled_tokens])
            self._sampler.pad(logits)
        numbers = None if is_open else mixed.numbers

        def rest(rows: Sequence[PlannedRow]) -> Begun:
            decided = Decided({}, lambda host: [])
            if logits is not None:
                own = [rows[i] for i in deciding]
                decided = self._ends.decide(
                    side, own, logits, mixed.draws, numbers=numbers, places=mixed.places
                )
            return self._ends.of_mixed(side, rows, mixed, hidden, decided)

        return rest

    def _kv_address(self) -> object:
        """Return what changes when the KV moves."""
        layer = self._kv.layers[0]
        scales = 0 if layer.scales is None else layer.scales.data_ptr()
        return layer.numbers.data_ptr(), scales, tuple(layer.numbers.shape)
