"""Batch: a StepPlan as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import torch

from localpaged.engine.block_pool import READ_PAD_BLOCK
from localpaged.engine.step_plan import PlannedRow, StepPlan
from localpaged_kernels import AttentionBatch
from localpaged_kernels.paged_attention.beginnings import group_numbers, shared_beginnings
from localpaged_kernels.paged_attention.device_rows import DeviceRows

if TYPE_CHECKING:
    from localpaged_kernels.paged_attention.triton_cascade import DeviceGroups


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs of one forward pass, rows of the plan one after the other.

    `token_ids`, `positions` and `slots` are [tokens] int64; `sampled_tokens` [spots] int64
    are the indexes of the tokens whose hidden states become logits.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    sampled_tokens: torch.Tensor
    attention: AttentionBatch


def build_batch(plan: StepPlan, *, block_size: int) -> Batch:
    """Make the tensors of `plan`."""
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    sampled: list[int] = []
    for row in plan.rows:
        token_ids += row.token_ids
        positions += range(row.start, row.end)
        slots += slots_of(row, block_size)
        sampled += range(len(token_ids) - row.num_logits, len(token_ids))
    decodes = [row for row in plan.rows if len(row.token_ids) == 1]
    widest = max((len(row.block_table) for row in decodes), default=0)
    padded = chain.from_iterable(
        chain(row.block_table, [READ_PAD_BLOCK] * (widest - len(row.block_table)))
        for row in decodes
    )
    return Batch(
        token_ids=torch.tensor(token_ids),
        positions=torch.tensor(positions),
        slots=torch.tensor(slots),
        sampled_tokens=torch.tensor(sampled, dtype=torch.int64),
        attention=AttentionBatch(
            tables=tuple(torch.tensor(row.block_table) for row in plan.rows),
            runs=tuple(_run(row.block_table) for row in plan.rows),
            block_tables=torch.tensor(list(padded), dtype=torch.int64).view(len(decodes), widest),
            query_lens=tuple(len(row.token_ids) for row in plan.rows),
            seq_lens=tuple(row.end for row in plan.rows),
            num_decodes=len(decodes),
            block_size=block_size,
        ),
    )


def device_attention(
    rows: tuple[DeviceRows, ...],
    *,
    query_lens: tuple[int, ...],
    seq_lens: tuple[int, ...],
    num_decodes: int,
    block_size: int,
    groups: DeviceGroups | None = None,
) -> AttentionBatch:
    """Return the batch of rows that are on their device, where alone they are looked at.

    `groups` share a beginning.
    """
    device = rows[0].lens.device
    return AttentionBatch(
        tables=(),
        runs=(),
        block_tables=torch.empty(0, 0, dtype=torch.int64),
        query_lens=query_lens,
        seq_lens=seq_lens,
        num_decodes=num_decodes,
        block_size=block_size,
        shared={("device rows", device): rows, ("device groups", device): groups},
    )


def device_rows(
    tables: torch.Tensor,
    lens: torch.Tensor,
    *,
    wide_tables: torch.Tensor | None = None,
    wide_lens: torch.Tensor | None = None,
    starts: torch.Tensor | None = None,
    num_tokens: int = 0,
    kv_tokens: torch.Tensor | None = None,
) -> tuple[DeviceRows, ...]:
    """Return a step's decodes and, with `wide_tables`, its rows of several queries; all int32.

    Block tables are [rows, widest], lengths [rows]. Chunk r has the queries starts[r] up to
    starts[r + 1], the last of the `num_tokens` of the step. `kv_tokens` [1] are the tokens of all
    decodes. Each tensor begins at a multiple of 16 bytes, or kernels would be compiled anew.
    """
    num_decodes = len(tables)
    decodes = DeviceRows(tables, lens, None, 0, num_decodes, kv_tokens)
    if wide_tables is None or wide_lens is None or not len(wide_tables):
        return (decodes,)
    num_queries = num_tokens - num_decodes
    chunks = DeviceRows(wide_tables, wide_lens, starts, num_decodes, num_queries)
    return (decodes, chunks) if num_decodes else (chunks,)


def group_fields(count: int) -> tuple[tuple[str, int], ...]:
    """Return the names and sizes, int32, of what tells who of `count` decodes shares a beginning.

    They take the same room whoever shares.
    """
    return (
        ("members", count),
        ("group_starts", count // 2 + 1),
        ("group_lens", count // 2),
        ("skips", count),
    )


def device_groups(fields: Mapping[str, torch.Tensor]) -> DeviceGroups:
    """Return the groups that `group_fields` tell."""
    from localpaged_kernels.paged_attention.triton_cascade import DeviceGroups

    return DeviceGroups(
        fields["members"], fields["group_starts"], fields["group_lens"], fields["skips"]
    )


def find_groups(
    rows: Sequence[PlannedRow], *, count: int, block_size: int
) -> Mapping[str, list[int]] | None:
    """Return the numbers for `group_fields` of `count` decodes, the first of which are `rows`.

    None where nobody shares a beginning that is worth it.
    """
    tables = [row.block_table for row in rows]
    found = shared_beginnings(tables, [row.end for row in rows], block_size=block_size)
    if not found:
        return None
    told = group_numbers(found, num_rows=count, block_size=block_size, is_padded=True)
    return {
        "members": told.members,
        "group_starts": told.starts,
        "group_lens": told.lens,
        "skips": told.skips,
    }


def fresh_rests(plan: StepPlan, *, block_size: int) -> list[int]:
    """Return the slots behind each row's end in a last block that the row got in this step.

    Attention reads them, multiplied by zero. A block that others had before may hold what is not
    finite there, and zero times that is not zero.
    """
    copied = {copy.target for copy in plan.copies}
    slots: list[int] = []
    for row in plan.rows:
        last, num_used = divmod(row.end, block_size)
        if not num_used:
            continue
        block = row.block_table[last]
        if row.start <= last * block_size or block in copied:
            slots += range(block * block_size + num_used, (block + 1) * block_size)
    return slots


def _run(block_table: tuple[int, ...]) -> range | None:
    run = range(block_table[0], block_table[0] + len(block_table))
    return run if block_table == tuple(run) else None


def slots_of(row: PlannedRow, block_size: int) -> list[int]:
    """Return where the row's tokens have their K and V."""
    return [
        row.block_table[position // block_size] * block_size + position % block_size
        for position in range(row.start, row.end)
    ]
