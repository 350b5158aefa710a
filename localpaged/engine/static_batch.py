"""StaticBatch: the input and the draws of decode steps, in memory of the device that never moves.

A graph reads addresses, not values, so whatever a step is about is brought there by one copy. A
step of fewer rows than its graph has is filled up with rows that read the block that is always
zero and write the one that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from localpaged.engine.batch import (
    Batch,
    device_attention,
    device_groups,
    device_rows,
    find_groups,
    group_fields,
)
from localpaged.engine.block_pool import READ_PAD_BLOCK, WRITE_PAD_BLOCK
from localpaged.engine.device import DeviceLayer
from localpaged.engine.drawing import uniform
from localpaged.engine.packed import Field, Layout, draw_fields
from localpaged.engine.sides import Side
from localpaged.engine.step_plan import UNKNOWN_TOKEN, PlannedRow, SequenceId


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a step of so many rows reads, on the device; views of one piece."""

    piece: torch.Tensor
    layout: Layout
    fields: Mapping[str, torch.Tensor]
    draws: Mapping[str, torch.Tensor]


class StaticBatch:
    """Engine thread only. Nothing here is ever allocated again, so graphs stay right.

    `tokens` [max_rows] int64 are the draws of the step that was launched last, `sound` int8 whether
    their logits were; both lie in `results` [bytes] uint8, which go to the host as they are.
    """

    def __init__(
        self,
        device: DeviceLayer,
        *,
        max_rows: int,
        table_width: int,
        block_size: int,
        vocab_size: int,
        has_cascade: bool = True,
    ) -> None:
        self.max_rows = max_rows
        self._device = device
        self._width = table_width
        self._block_size = block_size
        self._vocab_size = vocab_size
        self._has_cascade = has_cascade
        where = device.torch_device
        self._piece = torch.zeros(self._layout(max_rows).num_bytes, dtype=torch.uint8, device=where)
        self.results_layout = Layout(
            (Field("tokens", torch.int64, (max_rows,)), Field("sound", torch.int8, (max_rows,)))
        )
        self.results = torch.zeros(self.results_layout.num_bytes, dtype=torch.uint8, device=where)
        results = self.results_layout.tensors(self.results)
        self.tokens, self.sound = results["tokens"], results["sound"]
        self._inputs: dict[int, Inputs] = {}
        self._arrays: dict[tuple[int, int], Mapping[str, np.ndarray]] = {}
        self._tables: dict[int, list[tuple[int, ...]]] = {}

    def inputs(self, count: int) -> Inputs:
        """Return the inputs of a step of `count` rows."""
        known = self._inputs.get(count)
        if known is None:
            layout = self._layout(count)
            piece = self._piece[: layout.num_bytes]
            fields = layout.tensors(piece)
            draws = {field.name: fields[field.name] for field in draw_fields(count)}
            known = self._inputs[count] = Inputs(piece, layout, fields, draws)
        return known

    def batch(self, count: int, *, has_groups: bool) -> Batch:
        """Return the batch of a step of `count` rows; calls operators, which may be recorded.

        With `has_groups` those that share a beginning attend to it together.

        A row that goes on with a token which the host does not know takes it from `tokens`.
        """
        fields = self.inputs(count).fields
        places = fields["places"]
        drawn = self.tokens.index_select(0, places.clamp(min=0))
        # What a row drew whose logits are not sound is any number, and nobody's answer.
        drawn = drawn.clamp(0, self._vocab_size - 1)
        return Batch(
            token_ids=torch.where(places >= 0, drawn, fields["token_ids"]),
            positions=fields["positions"],
            slots=fields["slots"],
            sampled_tokens=places,
            attention=device_attention(
                device_rows(fields["tables"], fields["lens"], kv_tokens=fields["kv_tokens"]),
                query_lens=(1,) * count,
                seq_lens=(self._width * self._block_size,) * count,
                num_decodes=count,
                block_size=self._block_size,
                groups=device_groups(fields) if has_groups else None,
            ),
        )

    def upload(
        self,
        side: Side,
        rows: Sequence[PlannedRow],
        *,
        count: int,
        places: Mapping[SequenceId, int],
    ) -> bool:
        """Begin to bring `rows`, filled up to `count`, to the device; return whether some share.

        `places` tells where in `tokens` a sequence's unknown token is.
        """
        inputs = self.inputs(count)
        memory, is_kept = side.up(inputs.layout.num_bytes, tag=count)
        key = (memory.data_ptr(), count)
        if key not in self._arrays:
            self._arrays[key] = inputs.layout.arrays(memory)
        arrays = self._arrays[key]
        if not is_kept:
            memory.zero_()
            self._pad(arrays, 0)
            self._tables[id(side)] = [()] * count
        known = self._tables[id(side)]
        self._write_tables(arrays["tables"], known, rows)
        known[len(rows) :] = [()] * (count - len(rows))
        self._write_tokens(arrays, rows, places)
        _write_draws(arrays, rows)
        self._pad(arrays, len(rows))
        arrays["kv_tokens"][0] = arrays["lens"].sum()
        groups = None
        if self._has_cascade:
            groups = find_groups(rows, count=count, block_size=self._block_size)
        for name, numbers in (groups or {}).items():
            arrays[name][:] = numbers
        self._device.upload(memory, inputs.piece)
        return groups is not None

    def _layout(self, count: int) -> Layout:
        whole, short = torch.int64, torch.int32
        return Layout(
            (
                *(Field(n, whole, (count,)) for n in ("token_ids", "places", "positions", "slots")),
                *draw_fields(count),
                Field("lens", short, (count,)),
                Field("kv_tokens", short, (1,)),
                *(Field(name, short, (size,)) for name, size in group_fields(count)),
                Field("tables", short, (count, self._width)),
            )
        )

    def _write_tables(
        self, tables: np.ndarray, known: list[tuple[int, ...]], rows: Sequence[PlannedRow]
    ) -> None:
        """Write the tables that differ from what this memory has: most steps add no block."""
        for i, row in enumerate(rows):
            table = row.block_table
            if known[i] != table:
                tables[i, : len(table)] = table
                known[i] = table

    def _write_tokens(
        self,
        arrays: Mapping[str, np.ndarray],
        rows: Sequence[PlannedRow],
        places: Mapping[SequenceId, int],
    ) -> None:
        size, count = self._block_size, len(rows)
        arrays["token_ids"][:count] = [max(row.token_ids[0], 0) for row in rows]
        arrays["places"][:count] = [
            places[row.sequence_id] if row.token_ids[0] == UNKNOWN_TOKEN else -1 for row in rows
        ]
        starts = [row.start for row in rows]
        arrays["positions"][:count] = starts
        arrays["lens"][:count] = [start + 1 for start in starts]
        arrays["slots"][:count] = [
            row.block_table[start // size] * size + start % size
            for row, start in zip(rows, starts, strict=True)
        ]

    def _pad(self, arrays: Mapping[str, np.ndarray], first: int) -> None:
        """Make the rows from `first` on such that nobody is hurt."""
        slots = arrays["slots"]
        if first == len(slots):
            return
        size = self._block_size
        arrays["token_ids"][first:] = 0
        arrays["places"][first:] = -1
        arrays["positions"][first:] = 0
        arrays["lens"][first:] = 1
        # one slot each, as far as the block has them: two writers of one would be a race
        slots[first:] = WRITE_PAD_BLOCK * size + np.arange(len(slots) - first) % size
        arrays["tables"][first:, 0] = READ_PAD_BLOCK
        arrays["temperatures"][first:] = 0


def _write_draws(arrays: Mapping[str, np.ndarray], rows: Sequence[PlannedRow]) -> None:
    """Write what each row's draw is made with; a row without one is greedy, for nobody."""
    count = len(rows)
    samplings = [row.sampling for row in rows]
    arrays["temperatures"][:count] = [s.temperature for s in samplings]
    arrays["top_p"][:count] = [s.top_p for s in samplings]
    arrays["min_p"][:count] = [s.min_p for s in samplings]
    arrays["top_k"][:count] = [s.top_k for s in samplings]
    arrays["numbers"][:count] = [
        uniform(row.draws[0]) if row.draws and row.sampling.temperature > 0 else 0.0 for row in rows
    ]
