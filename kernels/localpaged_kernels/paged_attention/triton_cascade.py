"""Cascade attention on a GPU: what a group of sequences shares is read once for all of them.

The queries of a group become rows of one matrix that attends to the shared beginning; each sequence
attends to the rest alone. Both leave parts in the same slots, which are put together as those of a
sequence that was cut: one launch more, and no merging that was not there before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from localpaged_kernels.card import Card, card_of
from localpaged_kernels.launch import Launch
from localpaged_kernels.paged_attention.beginnings import group_numbers, shared_beginnings
from localpaged_kernels.paged_attention.device_rows import DeviceRows
from localpaged_kernels.paged_attention.triton_launches import (
    MAX_SPLITS,
    Slots,
    Terms,
    attend_launch,
    is_soft_fp8,
    merge_launch,
    slots_for,
    splits_for,
)
from localpaged_kernels.paged_attention.triton_shape import Shape, shape_of

if TYPE_CHECKING:
    from localpaged_kernels.paged_attention.batch import AttentionBatch


@dataclass(frozen=True, slots=True)
class DeviceGroups:
    """Decodes that begin with the same blocks; tensors are int32 on the device of the queries.

    Group g has the decodes members[starts[g]] up to members[starts[g + 1]], which share their first
    lens[g] tokens, whole blocks. `skips` [decodes] are the tokens that each shares, 0 for those
    that are in no group; everybody has at least one token behind them. Only shapes are known to the
    host: groups without members do nothing, so a launch that was captured fits whoever shares.
    """

    members: torch.Tensor
    starts: torch.Tensor
    lens: torch.Tensor
    skips: torch.Tensor

    @property
    def count(self) -> int:
        """Groups."""
        return int(self.lens.shape[0])


def groups_of(
    batch: AttentionBatch, device: torch.device, *, window: int | None
) -> DeviceGroups | None:
    """Return who shares a beginning that is worth it, found once a step; None for nobody.

    A window that cuts a beginning off leaves nothing to share.
    """
    if batch.num_decodes < 2:
        return None
    if window is not None and window < max(batch.seq_lens[: batch.num_decodes]):
        return None
    key = ("device groups", device)
    if key not in batch.shared:
        batch.shared[key] = _groups(batch, device)
    made = batch.shared[key]
    assert made is None or isinstance(made, DeviceGroups)
    return made


def empty_slots(
    batch: AttentionBatch,
    queries: torch.Tensor,
    kv: torch.Tensor,
    rows: DeviceRows,
    groups: DeviceGroups,
) -> Slots:
    """Return slots for a step's parts, made once and used by one layer after the other.

    Who is in no group never has a shared part: its slots stay as they are made, empty.
    """
    key = ("cascade slots", queries.shape, queries.dtype)
    if key not in batch.shared:
        own, shared = splits_of(queries, kv, rows, groups, card_of(queries.device))
        slots = slots_for(queries, own + shared)
        slots.tops.fill_(float("-inf"))
        batch.shared[key] = slots
    made = batch.shared[key]
    assert isinstance(made, Slots)
    return made


def plan_cascade(
    out: torch.Tensor,
    queries: torch.Tensor,
    kv: torch.Tensor,
    rows: DeviceRows,
    groups: DeviceGroups,
    terms: Terms,
    slots: Slots,
    *,
    arrivals: torch.Tensor | None = None,
    card: Card | None = None,
) -> tuple[Launch, ...]:
    """Return the launches that fill the decodes' part of `out`; see `plan`.

    `slots` are those of `empty_slots`. The own parts come last, so that with `arrivals` the last of
    them finds all others ready.
    """
    card = card or card_of(queries.device)
    own, shared = splits_of(queries, kv, rows, groups, card)
    assert slots.count == own + shared
    together = _together(rows, groups)
    is_soft = is_soft_fp8(kv, card)
    shape = shape_of(queries, kv, together, card)
    shared_launch = attend_launch(
        out,
        queries,
        kv,
        together,
        terms,
        shape,
        slots,
        grid=(_num_blocks(groups, shape), kv.shape[3], shared),
        is_soft_fp8=is_soft,
        first_slot=own,
        members=groups.members,
    )
    own_launch = attend_launch(
        out,
        queries,
        kv,
        rows,
        terms,
        shape_of(queries, kv, rows, card),
        slots,
        grid=(rows.num_rows, kv.shape[3], own),
        is_soft_fp8=is_soft,
        arrivals=arrivals,
        skips=groups.skips,
    )
    if arrivals is not None:
        return (shared_launch, own_launch)
    merging = merge_launch(out, slots, terms.sinks, rows, most=2 * MAX_SPLITS)
    return (shared_launch, own_launch, merging)


def splits_of(
    queries: torch.Tensor, kv: torch.Tensor, rows: DeviceRows, groups: DeviceGroups, card: Card
) -> tuple[int, int]:
    """Return in how many parts a decode's own tokens and those of a group are cut."""
    kv_heads = kv.shape[3]
    shape = shape_of(queries, kv, rows, card)
    own = splits_for(rows.num_rows * kv_heads, rows, kv, shape, card)
    together = _together(rows, groups)
    shape = shape_of(queries, kv, together, card)
    return own, splits_for(_num_blocks(groups, shape) * kv_heads, together, kv, shape, card)


def _num_blocks(groups: DeviceGroups, shape: Shape) -> int:
    return int(groups.members.shape[0]) // shape.block_q + groups.count


def _together(rows: DeviceRows, groups: DeviceGroups) -> DeviceRows:
    return DeviceRows(rows.tables, groups.lens, groups.starts, 0, int(groups.members.shape[0]))


def _groups(batch: AttentionBatch, device: torch.device) -> DeviceGroups | None:
    size = batch.block_size
    found = shared_beginnings(batch.block_tables.tolist(), batch.seq_lens, block_size=size)
    if not found:
        return None
    numbers = group_numbers(found, num_rows=batch.num_decodes, block_size=size)

    def on_device(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32).to(device)

    return DeviceGroups(
        members=on_device(numbers.members),
        starts=on_device(numbers.starts),
        lens=on_device(numbers.lens),
        skips=on_device(numbers.skips),
    )
