"""Times kernels on an NVIDIA GPU in every layout beside the one that a rule chooses.

    python benchmarks/gpu_layouts.py [--out FILE.json] [--seconds 240]
    python benchmarks/gpu_layouts.py --rehearse      the same code, tiny, on a CPU; measures nothing

The rule (`triton_shape.shape_of`, `triton_launches.splits_for`) was made without a card. This tells
what another tile, more warps, more stages or more parts would take, and whether the results agree;
and the same of the projection of one row (`few_rows.triton_impl.ON_CARDS`). At last it times a
chain of such projections, of which each waits for the one before: started one by one, as a graph,
and as a graph whose nodes begin while others end (`triton_operators(is_chained=True)`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_check_parts import machine
from gpu_check_parts.bench import Bench
from gpu_check_parts.checks import Conditions

if TYPE_CHECKING:
    from gpu_check_parts.attention_work import Tensors, Work
    from localpaged_kernels.launch import Launch
    from localpaged_kernels.paged_attention.triton_shape import Shape

TILES, WARPS, STAGES = (16, 32, 64, 128), (2, 4, 8), (2, 3, 5, 7)
CHUNK_ROWS = (64, 128)
MORE_PARTS = (1, 2, 4)
OUTPUTS, STRETCHES, FEW_STAGES = (4, 8, 16), (256, 512, 1_024), (2, 4, 6)
MATRICES = {"gate and up": (2_560, 9_728, "silu"), "down": (9_728, 2_560, None)}
"""Inputs and outputs of a 4B model's."""

FEW_SHARE = 0.2
"""Of the time."""

CHAIN_LENGTH, CHAIN_WIDTH = 24, 2_560

TOLERANCE = 2e-2
SPEND_S = 0.04
SHOWN = 12
"""Lines of a table: the fastest, and the rule's own."""


Tries = Callable[[float, float], Iterator["Line"]]
"""Given the bandwidth and a deadline yields a line for each layout."""


@dataclass(frozen=True, slots=True)
class Line:
    """A layout and its time; `error` is a share of what is tolerated beside the rule's results."""

    layout: str
    microseconds: float
    share: float
    error: float
    is_rule: bool = False


def main() -> int:
    """Time all layouts, print a table for each piece of work; exit status 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="tiny, on a CPU, nothing measured")
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    parser.add_argument("--seconds", type=float, default=240.0, help="what all of it may take")
    options = parser.parse_args()
    os.environ["TRITON_INTERPRET"] = "1" if options.rehearse else "0"
    bench = Bench(Conditions(options.rehearse, time.monotonic() + options.seconds))
    if bench.is_rehearsal:
        print("REHEARSAL: on a CPU, interpreted; its times say nothing about a GPU")
    from gpu_check_parts.check_machine import bandwidth

    per_s = bandwidth(bench).median * 1e9
    works: list[tuple[str, Tries]] = [
        (f"a row, {name}", partial(_few_rows, bench, *matrix)) for name, matrix in MATRICES.items()
    ]
    works += [("a chain of projections", partial(_chain, bench))]
    shares = [FEW_SHARE / len(works)] * len(works)
    works += [(title, partial(_lines, bench, work)) for title, work in _works(bench)]
    shares += [(1 - FEW_SHARE) / (len(works) - len(shares))] * (len(works) - len(shares))
    all_s = bench.left_s()
    told: dict[str, Any] = {**machine.software(), "GB/s": per_s / 1e9, "works": {}}
    is_right = True
    for (title, tries), share in zip(works, shares, strict=True):
        deadline_s = time.monotonic() + all_s * share
        lines = sorted(tries(per_s, deadline_s), key=lambda line: line.microseconds)
        is_right &= all(line.error <= 1 for line in lines)
        told["works"][title] = [asdict(line) for line in lines]
        _print(title, lines)
        if options.out is not None:
            options.out.write_text(json.dumps(told, indent=2) + "\n")
    return 0 if is_right else 1


def _few_rows(
    bench: Bench, width: int, outputs: int, gate: Any, per_s: float, deadline_s: float
) -> Iterator[Line]:
    """Yield the layout that is taken, then all others as long as there is time."""
    import torch

    from gpu_check_parts.comparing import share_of_tolerance
    from localpaged_kernels.few_rows import triton_impl as few

    width, outputs = bench.pick((width, outputs), (96, 40))
    make = partial(torch.randn, dtype=torch.bfloat16, device=bench.device)
    x, total, out = make(1, width), make(1, width), make(1, outputs)
    weight = make(outputs * (1 if gate is None else 2), width) * width**-0.5
    right = None
    others = itertools.product(OUTPUTS, STRETCHES, FEW_STAGES)
    for layout in (few.ON_CARDS, *itertools.starmap(few.Layout, others)):
        if right is not None and time.monotonic() > deadline_s:
            return
        out.fill_(float("nan"))
        launch = few.plan(
            out, total, x, weight, residual=x, norm=x[0].abs() / 2, gate=gate, layout=layout
        )
        times = bench.watch.kernel(launch.run, spend_s=SPEND_S)
        is_rule, right = right is None, out.clone() if right is None else right
        off = 2 * TOLERANCE  # gate and what it opens are rounded each
        error = share_of_tolerance(out, right, absolute=off, relative=off)
        told = f"{layout.outputs} outputs, {layout.stretch} inputs, {layout.stages} stages"
        yield Line(told, times.median * 1e6, weight.nbytes / times.median / per_s, error, is_rule)


def _chain(bench: Bench, per_s: float, deadline_s: float) -> Iterator[Line]:
    """Yield a chain of projections started in three ways; a CPU knows the first alone."""
    import torch

    from gpu_check_parts.comparing import share_of_tolerance
    from localpaged_kernels.few_rows.triton_impl import plan

    del deadline_s  # it is soon over
    length, width = bench.pick((CHAIN_LENGTH, CHAIN_WIDTH), (3, 64))
    make = partial(torch.randn, dtype=torch.bfloat16, device=bench.device)
    rows, norm = [make(1, width) for _ in range(length + 1)], make(width).abs()
    weights = [make(width, width) * width**-0.5 for _ in range(length)]
    launches = [
        plan(out, x, x, weight, norm=norm, eps=1e-6)
        for x, out, weight in zip(rows, rows[1:], weights, strict=False)
    ]
    moved, right = sum(weight.nbytes for weight in weights), None
    for way in ("as a graph", "as a graph, chained", "one by one"):
        is_card = bench.device.type == "cuda"
        some = [one.chained() for one in launches] if is_card and "chained" in way else launches
        run: Callable[[], None] = partial(_run_all, some)
        if is_card and "graph" in way:
            run = _recorded(run)
        rows[-1].fill_(float("nan"))
        times = bench.watch.kernel(run, spend_s=SPEND_S)
        is_rule, right = right is None, rows[-1].clone() if right is None else right
        error = share_of_tolerance(rows[-1], right, absolute=TOLERANCE, relative=TOLERANCE)
        yield Line(way, times.median * 1e6, moved / times.median / per_s, error, is_rule)


def _run_all(launches: Sequence[Launch]) -> None:
    """Start all of them."""
    for launch in launches:
        launch.run()


def _recorded(work: Callable[[], None]) -> Callable[[], None]:
    import torch

    work()  # compiled before it is recorded
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _works(bench: Bench) -> list[tuple[str, Work]]:
    import torch

    from gpu_check_parts.attention_inputs import Shape as Heads
    from gpu_check_parts.attention_work import Work

    heads = bench.pick(Heads(heads=32), Heads(4, 2, 32))
    eight_bit = bench.pick(
        Heads(heads=32, kv_dtype=torch.int8), Heads(4, 2, 32, kv_dtype=torch.int8)
    )
    sizes = bench.pick((8, 1, 8_000), (2, 1, 40))
    works = [("decode", Work(heads, *sizes)), ("decode on int8", Work(eight_bit, *sizes))]
    works += [("decode", Work(heads, *bench.pick((1, 1, 16_000), (1, 1, 40))))]
    works += [("chunk", Work(heads, *bench.pick((1, 2_048, 8_192), (1, 5, 20))))]
    return [(f"{name}, {work.name}", work) for name, work in works]


def _lines(bench: Bench, work: Work, per_s: float, deadline_s: float) -> Iterator[Line]:
    """Yield the rule's layout, then all others as long as there is time."""
    from gpu_check_parts.attention_work import launches_of, run_launches, tensors_of
    from gpu_check_parts.comparing import share_of_tolerance

    tensors = tensors_of(work, bench.device)

    def line(layout: str, launches: Sequence[Launch], *, is_rule: bool = False) -> Line:
        tensors.out.fill_(float("nan"))
        times = bench.watch.kernel(partial(run_launches, launches), spend_s=SPEND_S)
        error = share_of_tolerance(tensors.out, right, absolute=TOLERANCE, relative=TOLERANCE)
        share = work.moved_bytes / times.median / per_s
        return Line(layout, times.median * 1e6, share, error, is_rule)

    ruled = launches_of(work, tensors)
    run_launches(ruled)
    right = tensors.out.clone()
    first = ruled[0]
    tile, rows = first.constants["TILE"], first.constants["BLOCK_M"]
    yield line(
        _told(rows, tile, first.num_warps, first.num_stages, first.grid[2]), ruled, is_rule=True
    )
    for shape, splits in _layouts(bench, work, tensors):
        if time.monotonic() > deadline_s:
            return
        told = _told(shape.block_m, shape.tile, shape.num_warps, shape.num_stages, splits)
        try:
            yield line(told, _laid_out(work, tensors, shape, splits))
        except Exception as error:  # such as shared memory that does not suffice
            print(f"{told}: {type(error).__name__}", file=sys.stderr)


def _layouts(bench: Bench, work: Work, tensors: Tensors) -> Iterator[tuple[Shape, int]]:
    from localpaged_kernels.card import card_of
    from localpaged_kernels.launch import power_of_two
    from localpaged_kernels.paged_attention.triton_launches import (
        MAX_SPLITS,
        num_blocks,
        splits_for,
    )
    from localpaged_kernels.paged_attention.triton_shape import LEAST_ROWS, Shape

    group = work.shape.heads // work.shape.kv_heads
    is_decode = work.queries == 1
    card, rows = card_of(bench.device), _rows(work, tensors)
    layouts = list(
        itertools.product(
            (LEAST_ROWS,) if is_decode else bench.pick(CHUNK_ROWS, (16,)),
            bench.pick(TILES, (16,)),
            bench.pick(WARPS, (4,)),
            bench.pick(STAGES, (2,)),
        )
    )
    random.Random(0).shuffle(layouts)  # where time runs out, some of each kind were tried
    for block_m, tile, warps, stages in layouts:
        dim = power_of_two(work.shape.dim)
        shape = Shape(dim, block_m, 1 if is_decode else block_m // group, tile, warps, stages)
        programs = num_blocks(rows, shape) * work.shape.kv_heads
        parts = splits_for(programs, rows, tensors.kv, shape, card)
        for splits in dict.fromkeys(min(parts * more, MAX_SPLITS) for more in MORE_PARTS):
            yield shape, splits


def _rows(work: Work, tensors: Tensors) -> Any:
    from localpaged_kernels.paged_attention.device_rows import DeviceRows

    starts = None if work.queries == 1 else tensors.starts
    return DeviceRows(tensors.tables, tensors.lens, starts, 0, work.rows * work.queries)


def _laid_out(work: Work, tensors: Tensors, shape: Shape, splits: int) -> list[Launch]:
    from localpaged_kernels.paged_attention import triton_launches as of

    rows = _rows(work, tensors)
    terms = of.Terms(work.shape.dim**-0.5, kv_scales=tensors.scales)
    slots = of.slots_for(tensors.queries, 0 if splits == 1 else splits)
    grid = (of.num_blocks(rows, shape), work.shape.kv_heads, splits)
    launches = [
        of.attend_launch(
            tensors.out, tensors.queries, tensors.kv, rows, terms, shape, slots,
            grid=grid, is_soft_fp8=False,
        )
    ]  # fmt: skip
    return launches + ([of.merge_launch(tensors.out, slots, None, rows)] if splits > 1 else [])


def _told(rows: int, tile: int, warps: int, stages: int, splits: int) -> str:
    return f"{rows} rows, tile {tile}, {warps} warps, {stages} stages, {splits} parts"


def _print(title: str, lines: Sequence[Line]) -> None:
    print(f"\n{title}: {len(lines)} layouts\n")
    print("| layout | µs | of the bandwidth | error of tolerance | |\n|---|---|---|---|---|")
    for place, line in enumerate(lines):
        if place < SHOWN or line.is_rule or line.error > 1:
            mark = "the rule's" if line.is_rule else "WRONG" if line.error > 1 else ""
            print(
                f"| {line.layout} | {line.microseconds:,.1f} | {line.share:.1%} |"
                f" {line.error:.2f} | {mark} |"
            )


if __name__ == "__main__":
    sys.exit(main())
