"""MixedBatch: the input of a step with prompts, in one piece that goes to the device at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch

from localpaged.engine.batch import (
    Batch,
    device_attention,
    device_groups,
    device_rows,
    find_groups,
    slots_of,
)
from localpaged.engine.block_pool import READ_PAD_BLOCK
from localpaged.engine.device import DeviceLayer
from localpaged.engine.device_sampler import draws_of
from localpaged.engine.drawing import uniform
from localpaged.engine.packed import Field, Layout, draw_fields, fields_of
from localpaged.engine.sides import Side
from localpaged.engine.step_plan import UNKNOWN_TOKEN, PlannedRow, SequenceId

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class MixedBatch:
    """A step on the device.

    `draws` are the numbers that `draws_of` the deciding rows are made with; `places` [draws] int64
    where among the sampled tokens each draws, None where that is one after the other. `numbers` are
    those that came along.
    """

    batch: Batch
    draws: Mapping[str, torch.Tensor]
    places: torch.Tensor | None
    numbers: Mapping[str, torch.Tensor]


def upload_mixed(
    device: DeviceLayer,
    side: Side,
    rows: Sequence[PlannedRow],
    *,
    block_size: int,
    drawn: torch.Tensor,
    places: Mapping[SequenceId, int],
    numbers: Mapping[str, np.ndarray],
    has_cascade: bool = True,
) -> MixedBatch:
    """Begin to bring `rows`, those of one token first, and `numbers` to the device in one copy.

    `places` tells where in `drawn` int64 a sequence's unknown token is. With `has_cascade` decodes
    that share a beginning attend to it together.
    """
    num_decodes = sum(len(row.token_ids) == 1 for row in rows)
    num_draws = sum(row.num_logits if row.num_drafts else len(row.draws) for row in rows)
    groups = _groups(rows[:num_decodes], block_size=block_size) if has_cascade else {}
    more = fields_of({**groups, **numbers})
    layout = _layout(rows, num_decodes=num_decodes, num_draws=num_draws, more=more)
    memory, _ = side.up(layout.num_bytes)
    arrays = layout.arrays(memory)
    for name, array in (*groups.items(), *numbers.items()):
        arrays[name][...] = array
    _write_tokens(arrays, rows, places, block_size=block_size)
    _write_tables(arrays, rows, num_decodes)
    is_in_order = _write_draws(arrays, rows)
    piece = torch.empty(layout.num_bytes, dtype=torch.uint8, device=device.torch_device)
    device.upload(memory, piece)
    fields = layout.tensors(piece)
    token_ids = fields["token_ids"]
    if (arrays["unknown"] >= 0).any():
        asked, known = fields["unknown"], token_ids[:num_decodes]
        known.copy_(torch.where(asked >= 0, drawn.index_select(0, asked.clamp(min=0)), known))
    return MixedBatch(
        Batch(
            token_ids=token_ids,
            positions=fields["positions"],
            slots=fields["slots"],
            sampled_tokens=fields["sampled"],
            attention=device_attention(
                device_rows(
                    fields["tables"],
                    fields["lens"],
                    wide_tables=fields["wide_tables"],
                    wide_lens=fields["wide_lens"],
                    starts=fields["starts"],
                    num_tokens=len(token_ids),
                    kv_tokens=fields["kv_tokens"],
                ),
                query_lens=tuple(len(row.token_ids) for row in rows),
                seq_lens=tuple(row.end for row in rows),
                num_decodes=num_decodes,
                block_size=block_size,
                groups=device_groups(fields) if groups else None,
            ),
        ),
        draws={field.name: fields[field.name] for field in draw_fields(num_draws)},
        places=None if is_in_order else fields["places"],
        numbers={name: fields[name] for name in numbers},
    )


def _groups(decodes: Sequence[PlannedRow], *, block_size: int) -> dict[str, np.ndarray]:
    """Return who of some decodes shares a beginning, for `device_groups`; empty for nobody."""
    found = find_groups(decodes, count=len(decodes), block_size=block_size)
    return {name: np.array(told, dtype=np.int32) for name, told in (found or {}).items()}


def _layout(
    rows: Sequence[PlannedRow], *, num_decodes: int, num_draws: int, more: Sequence[Field]
) -> Layout:
    num_tokens = sum(len(row.token_ids) for row in rows)
    whole, short = torch.int64, torch.int32
    return Layout(
        (
            *(Field(n, whole, (num_tokens,)) for n in ("token_ids", "positions", "slots")),
            Field("sampled", whole, (sum(row.num_logits for row in rows),)),
            Field("unknown", whole, (num_decodes,)),
            Field("places", whole, (num_draws,)),
            *draw_fields(num_draws),
            Field("lens", short, (num_decodes,)),
            Field("kv_tokens", short, (1,)),
            Field("wide_lens", short, (len(rows) - num_decodes,)),
            Field("starts", short, (len(rows) - num_decodes + 1,)),
            Field("tables", short, _table_shape(rows[:num_decodes])),
            Field("wide_tables", short, _table_shape(rows[num_decodes:])),
            *more,
        )
    )


def _table_shape(rows: Sequence[PlannedRow]) -> tuple[int, int]:
    return len(rows), max((len(row.block_table) for row in rows), default=0)


def _write_tokens(
    arrays: Arrays,
    rows: Sequence[PlannedRow],
    places: Mapping[SequenceId, int],
    *,
    block_size: int,
) -> None:
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    sampled: list[int] = []
    for row in rows:
        token_ids += row.token_ids
        positions += range(row.start, row.end)
        slots += slots_of(row, block_size)
        sampled += range(len(token_ids) - row.num_logits, len(token_ids))
    arrays["token_ids"][:] = token_ids
    arrays["positions"][:] = positions
    arrays["slots"][:] = slots
    arrays["sampled"][:] = sampled
    arrays["unknown"][:] = [
        places[row.sequence_id] if row.token_ids[0] == UNKNOWN_TOKEN else -1
        for row in rows[: len(arrays["unknown"])]
    ]


def _write_tables(arrays: Arrays, rows: Sequence[PlannedRow], num_decodes: int) -> None:
    lens = [len(row.token_ids) for row in rows[num_decodes:]]
    arrays["lens"][:] = [row.end for row in rows[:num_decodes]]
    arrays["kv_tokens"][0] = arrays["lens"].sum()
    arrays["wide_lens"][:] = [row.end for row in rows[num_decodes:]]
    arrays["starts"][:] = [*accumulate(lens, initial=num_decodes)]
    for name, named in (("tables", rows[:num_decodes]), ("wide_tables", rows[num_decodes:])):
        tables = arrays[name]
        tables.fill(READ_PAD_BLOCK)
        for i, row in enumerate(named):
            tables[i, : len(row.block_table)] = row.block_table


def _write_draws(arrays: Arrays, rows: Sequence[PlannedRow]) -> bool:
    """Return whether there is one draw for each sampled token, in their order."""
    draws = draws_of([row for row in rows if row.needs_logits])
    samplings = [spot.row.sampling for spot, _ in draws]
    places = [spot.place for spot, _ in draws]
    arrays["places"][:] = places
    arrays["temperatures"][:] = [sampling.temperature for sampling in samplings]
    arrays["top_k"][:] = [sampling.top_k for sampling in samplings]
    arrays["top_p"][:] = [sampling.top_p for sampling in samplings]
    arrays["min_p"][:] = [sampling.min_p for sampling in samplings]
    arrays["numbers"][:] = [uniform(draw) for _, draw in draws]
    return places == list(range(len(arrays["sampled"])))
