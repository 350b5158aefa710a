"""StaticChunk: the input of a step of one short chunk, in memory of the device that never moves.

A chat goes on with a few words behind a prefix that is known: reading weights is what that costs,
and starting its operators one by one would cost more. As a graph the step has a fixed number of
queries; those that the chunk does not have belong to a second row, which reads the block that is
always zero and writes the one that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from localpaged.engine.batch import Batch, device_attention, device_rows, slots_of
from localpaged.engine.block_pool import READ_PAD_BLOCK, WRITE_PAD_BLOCK
from localpaged.engine.device import DeviceLayer
from localpaged.engine.drawing import uniform
from localpaged.engine.packed import Field, Layout, draw_fields
from localpaged.engine.sides import Side
from localpaged.engine.step_plan import UNKNOWN_TOKEN, PlannedRow, StepPlan

TAG = "chunk"


class StaticChunk:
    """Engine thread only. Nothing here is ever allocated again, so a graph stays right.

    `num_queries` are those of the step, `draws` what its one draw is made with.
    """

    def __init__(
        self, device: DeviceLayer, *, num_queries: int, table_width: int, block_size: int
    ) -> None:
        self.num_queries = num_queries
        self._device = device
        self._block_size = block_size
        # The second row's table, too, has room for all that it reads.
        self._width = max(table_width, -(-num_queries // block_size))
        whole, short = torch.int64, torch.int32
        self._layout = Layout(
            (
                *(Field(n, whole, (num_queries,)) for n in ("token_ids", "positions", "slots")),
                Field("last", whole, (1,)),
                *draw_fields(1),
                Field("lens", short, (2,)),
                Field("starts", short, (3,)),
                Field("tables", short, (2, self._width)),
            )
        )
        self._piece = torch.zeros(
            self._layout.num_bytes, dtype=torch.uint8, device=device.torch_device
        )
        self._fields = self._layout.tensors(self._piece)
        self.draws: Mapping[str, torch.Tensor] = {
            field.name: self._fields[field.name] for field in draw_fields(1)
        }

    def takes(self, plan: StepPlan) -> bool:
        """Return whether a step is one chunk of few tokens, the last of which draws once."""
        if len(plan.rows) != 1:
            return False
        row = plan.rows[0]
        is_short = 1 < len(row.token_ids) <= self.num_queries
        is_known = UNKNOWN_TOKEN not in row.token_ids
        draws_once = len(row.draws) == 1 and not row.num_drafts and not row.num_candidates
        return is_short and is_known and draws_once and row.prompt_scores is None

    def batch(self) -> Batch:
        """Return the batch of the step; calls operators, which may be recorded."""
        fields, count = self._fields, self.num_queries
        longest = self._width * self._block_size
        tables = fields["tables"]
        return Batch(
            token_ids=fields["token_ids"],
            positions=fields["positions"],
            slots=fields["slots"],
            sampled_tokens=fields["last"],
            attention=device_attention(
                device_rows(
                    tables[:0],
                    fields["lens"][:0],
                    wide_tables=tables,
                    wide_lens=fields["lens"],
                    starts=fields["starts"],
                    num_tokens=count,
                ),
                query_lens=(count, 0),
                seq_lens=(longest, longest),
                num_decodes=0,
                block_size=self._block_size,
            ),
        )

    def upload(self, side: Side, row: PlannedRow) -> None:
        """Begin to bring a row that `takes` says fits to the device."""
        memory, _ = side.up(self._layout.num_bytes, tag=TAG)
        arrays = self._layout.arrays(memory)
        count = len(row.token_ids)
        arrays["token_ids"][:] = 0
        arrays["positions"][:] = 0
        arrays["token_ids"][:count] = row.token_ids
        arrays["positions"][:count] = range(row.start, row.end)
        arrays["slots"][:count] = slots_of(row, self._block_size)
        self._pad(arrays, count)
        arrays["last"][0] = count - 1
        arrays["lens"][:] = row.end, self.num_queries - count
        arrays["starts"][:] = 0, count, self.num_queries
        arrays["tables"][:] = READ_PAD_BLOCK
        arrays["tables"][0, : len(row.block_table)] = row.block_table
        sampling = row.sampling
        arrays["temperatures"][0] = sampling.temperature
        arrays["top_p"][0], arrays["min_p"][0] = sampling.top_p, sampling.min_p
        arrays["top_k"][0] = sampling.top_k
        arrays["numbers"][0] = uniform(row.draws[0]) if sampling.temperature > 0 else 0.0
        self._device.upload(memory, self._piece)

    def _pad(self, arrays: Mapping[str, np.ndarray], first: int) -> None:
        """Let the queries from `first` on write where nobody reads."""
        size = self._block_size
        rest = np.arange(self.num_queries - first)
        arrays["slots"][first:] = WRITE_PAD_BLOCK * size + rest % size
