"""Check 6: attention to a shared beginning, once for all that share it and by each alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gpu_check_parts.attention_inputs import Shape, batch_of
from gpu_check_parts.attention_work import Tensors, Work, launches_of, run_launches, tensors_of
from gpu_check_parts.bench import Bench
from gpu_check_parts.choosing import give_back, largest
from gpu_check_parts.comparing import share_of_tolerance
from gpu_check_parts.entries import Case, Entry, Fault, Figure, Skip
from gpu_check_parts.figures import many, milliseconds
from gpu_check_parts.ours import Ours, Sizes
from gpu_check_parts.stopwatch import Times, times_of
from localpaged_kernels.launch import Launch
from localpaged_kernels.paged_attention.device_rows import DeviceRows
from localpaged_kernels.paged_attention.triton_cascade import empty_slots, groups_of, plan_cascade
from localpaged_kernels.paged_attention.triton_launches import Terms

BF16, INT8 = torch.bfloat16, torch.int8
SHARED_TOKENS, OWN_TOKENS = 4_000, 200
SEQUENCES = (2, 8, 32, 128)
TOLERANCE = 2e-2
WORK_S = 1.5
STEPS, WARM_STEPS = 20, 4


def run(bench: Bench) -> Iterator[Entry]:
    """Yield the kernel's times both ways, then those of whole steps."""
    for kv_dtype in (None, INT8):
        for sequences in bench.pick(SEQUENCES, (2,)):
            yield from _attention(bench, sequences, kv_dtype)
    give_back(bench)
    yield from _steps(bench)


def _attention(bench: Bench, sequences: int, kv_dtype: torch.dtype | None) -> Iterator[Entry]:
    shape = bench.pick(Shape(heads=32, kv_dtype=kv_dtype), Shape(4, 1, 32, kv_dtype=kv_dtype))
    shared, own = bench.pick((SHARED_TOKENS, OWN_TOKENS), (272, 20))
    work = Work(shape, sequences, 1, shared + own)
    stored = str(kv_dtype or shape.dtype).removeprefix("torch.")
    title = f"attention on {stored}, {many(sequences)}, {shared:,} shared and {own} own tokens"
    lack = bench.lacks_time(title, WORK_S) or bench.lacks_memory(title, 2 * work.kv_bytes)
    if lack is not None:
        yield lack
        return
    tensors = tensors_of(work, bench.device)
    tensors.tables[:, : shared // shape.block_size] = tensors.tables[
        0, : shared // shape.block_size
    ]
    alone = launches_of(work, tensors)
    each = bench.watch.kernel(lambda: run_launches(alone))
    expected = tensors.out.clone()
    together = _together(work, tensors)
    if together is None:
        yield Fault(title, "nobody was found to share a beginning")
        return
    tensors.out.fill_(float("nan"))
    once = bench.watch.kernel(lambda: run_launches(together))
    error = share_of_tolerance(tensors.out, expected, absolute=TOLERANCE, relative=TOLERANCE)
    yield Case("cascade and paged attention", title, error)
    yield _figure(title, once, each)


def _together(work: Work, tensors: Tensors) -> tuple[Launch, ...] | None:
    """Return the launches of the cascade, made as the engine makes them."""
    device = tensors.queries.device
    tables = [table.long() for table in tensors.tables.cpu()]
    batch = batch_of([(1, work.tokens)] * work.rows, tables, work.shape.block_size)
    groups = groups_of(batch, device, window=None)
    if groups is None:
        return None
    rows = DeviceRows(tensors.tables, tensors.lens, None, 0, work.rows)
    terms = Terms(work.shape.dim**-0.5, kv_scales=tensors.scales)
    slots = empty_slots(batch, tensors.queries, tensors.kv, rows, groups)
    return plan_cascade(tensors.out, tensors.queries, tensors.kv, rows, groups, terms, slots)


def _figure(title: str, once: Times, each: Times) -> Figure:
    return Figure(
        title,
        "µs",
        once.median * 1e6,
        once.low * 1e6,
        once.high * 1e6,
        once.runs,
        {"each alone": each.median * 1e6},
        {"times sooner": each.median / once.median},
    )


def _steps(bench: Bench) -> Iterator[Entry]:
    """Time whole steps of chats with one long system prompt, which are graphs either way."""
    sequences = bench.pick(32, 2)
    # Too little to be shared in a rehearsal, in which prompts take minutes to be read.
    shared, own = bench.pick((SHARED_TOKENS, OWN_TOKENS), (16, 1))
    sizes = bench.pick(
        Sizes(SHARED_TOKENS + sequences * 320, 8_192, sequences), Sizes(256, 128, 4, 64)
    )
    chosen = largest(bench, sizes)
    if isinstance(chosen, Skip):
        yield chosen
        return
    name, config = chosen
    medians: dict[str, float] = {}
    for how, has_cascade in (("each alone", False), ("together", True)):
        title = f"{name}, {many(sequences)} that share {shared:,} tokens, a step {how}"
        lack = bench.lacks_time(title, 3.0)
        if lack is not None:
            yield lack
            continue
        ours = Ours(bench, config, sizes, has_cascade=has_cascade)
        steps = ours.decode_steps(
            sequences,
            prompt_tokens=shared + own,
            shared=shared,
            steps=bench.pick(STEPS, 1),
            warm_steps=bench.pick(WARM_STEPS, 1),
        )
        yield milliseconds(title, steps.seconds, beside=medians)
        medians = {how: times_of(steps.seconds).median * 1e3}
        del ours
        give_back(bench)
