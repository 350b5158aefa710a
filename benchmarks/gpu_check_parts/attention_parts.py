"""Into how many parts a decode's sequences are best cut, and who puts the parts together.

The rule that decides (`triton_launches.splits_for`) was made without a card. These figures say what
it would cost to decide otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from gpu_check_parts.attention_inputs import Shape
from gpu_check_parts.attention_work import Work, launches_of, run_launches, tensors_of
from gpu_check_parts.bench import Bench
from gpu_check_parts.entries import Entry, Figure
from localpaged_kernels.launch import Launch
from localpaged_kernels.paged_attention.triton_launches import MAX_SPLITS

SIZES = ((1, 2_000), (1, 16_000), (8, 8_000), (32, 2_000))
SPEND_S = 0.05
WORK_S = 1.5


def parts(bench: Bench) -> Iterator[Entry]:
    """Yield for each size the time of the rule's choice, beside it all others'."""
    shape = bench.pick(Shape(heads=32), Shape(4, 2, 32))
    for rows, tokens in bench.pick(SIZES, ((1, 40),)):
        work = Work(shape, rows, 1, tokens)
        title = f"decode in parts, {work.name}"
        lack = bench.lacks_time(title, WORK_S) or bench.lacks_memory(title, 2 * work.kv_bytes)
        yield lack or _figure(bench, work, title)


def _figure(bench: Bench, work: Work, title: str) -> Figure:
    tensors = tensors_of(work, bench.device)
    arrivals = torch.zeros(work.rows * work.shape.kv_heads, dtype=torch.int32, device=bench.device)

    def time_s(launches: tuple[Launch, ...]) -> float:
        return bench.watch.kernel(partial(run_launches, launches), spend_s=SPEND_S).median

    ways = {"1 part": launches_of(work, tensors, num_splits=1)}
    for count in (1 << bit for bit in range(1, MAX_SPLITS.bit_length())):
        ways[f"{count} parts"] = launches_of(work, tensors, num_splits=count)
        ways[f"{count}, the last merges"] = launches_of(
            work, tensors, num_splits=count, arrivals=arrivals
        )
    if bench.is_rehearsal:
        ways = dict(list(ways.items())[:3])
    ruled = launches_of(work, tensors)
    chosen = ruled[0].grid[2]
    times = bench.watch.kernel(partial(run_launches, ruled))
    return Figure(
        title,
        "µs",
        times.median * 1e6,
        times.low * 1e6,
        times.high * 1e6,
        times.runs,
        {name: time_s(launches) * 1e6 for name, launches in ways.items()},
        note=f"the rule takes {chosen}",
    )
