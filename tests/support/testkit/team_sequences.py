"""Sequences that a team's decoder computes step by step, without an engine around it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from localpaged.engine.batch import build_batch
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.params import SamplingParams
from localpaged.engine.step_plan import PlannedRow, StepPlan
from localpaged.engine.team_decoder import TeamDecoder

FIRST_BLOCK = 2
BLOCKS = 32
"""Of each sequence: 512 tokens."""

Row = tuple[int, Sequence[int], int, int]


class Sequences:
    """Up to four sequences with KV of their own, of which steps are computed piece by piece."""

    def __init__(self, decoder: TeamDecoder, kv_dtype: torch.dtype = torch.bfloat16) -> None:
        self.decoder = decoder
        count = FIRST_BLOCK + 4 * BLOCKS
        self.kv = KVStorage(decoder.config, num_blocks=count, block_size=16, dtype=kv_dtype)

    def step(self, *rows: Row) -> tuple[torch.Tensor, ...]:
        """Return the hidden states of rows (sequence, ids, start, end); decodes come first."""
        planned = [
            PlannedRow(
                sequence_id=sequence,
                request_id=str(sequence),
                token_ids=tuple(ids[start:end]),
                start=start,
                block_table=_table(sequence, end),
                sampling=SamplingParams(),
            )
            for sequence, ids, start, end in rows
        ]
        planned.sort(key=lambda row: len(row.token_ids) != 1)
        batch = build_batch(StepPlan(tuple(planned), ()), block_size=16)
        with torch.inference_mode():
            hidden = self.decoder.forward(batch, self.kv)
        return tuple(hidden.split([len(row.token_ids) for row in planned]))


def _table(sequence: int, end: int) -> tuple[int, ...]:
    first = FIRST_BLOCK + sequence * BLOCKS
    return tuple(range(first, first + -(-end // 16)))
