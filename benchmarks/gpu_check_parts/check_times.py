"""Check 3: each kernel's time, bytes and share of the bandwidth, beside torch's own attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gpu_check_parts.attention_inputs import Shape
from gpu_check_parts.attention_parts import parts
from gpu_check_parts.attention_work import (
    Tensors,
    Work,
    launches_of,
    run_launches,
    sdpa,
    tensors_of,
    varlen,
)
from gpu_check_parts.bench import Bench
from gpu_check_parts.check_machine import bandwidth
from gpu_check_parts.checks import BESIDE_VARLEN, LONG_BANDWIDTH
from gpu_check_parts.entries import Case, Entry, Fault, Figure, Skip
from gpu_check_parts.figures import first_line
from gpu_check_parts.operator_work import operator_works
from gpu_check_parts.stopwatch import Times

QWEN3_8B = Shape(heads=32)
INT8, FP8 = torch.int8, torch.float8_e4m3fn
DECODES = ((1, 512), (8, 2_000), (8, 8_000), (32, 2_000), (64, 8_000), (1, 8_000), (1, 32_000))
CHUNKS = ((1, 512, 4_096), (1, 2_048, 2_048), (8, 512, 512))
EIGHT_BIT = ((8, 8_000), (32, 2_000))
LEAST_SHARE = 0.8
LONG = (8, 8_000)
"""Sequences and tokens from which on the kernel has to come near the bandwidth."""

WORK_S = 2.0


def run(bench: Bench) -> Iterator[Entry]:
    """Yield figures: decodes first, since bars are of them, then chunks, then all other kernels.

    What a decode would take in other parts comes last.
    """
    if not bench.is_rehearsal:
        torch.cuda.init()
    speed = bandwidth(bench)
    yield speed
    per_s = speed.median * 1e9
    against_varlen: list[float] = []
    long_shares: list[float] = []
    for work in _decodes(bench):
        for entry in _attention(bench, work, per_s, name="decode"):
            yield entry
            if isinstance(entry, Figure) and work.shape.kv_dtype is None:
                if "varlen_attn" in entry.beside:
                    against_varlen.append(entry.beside["varlen_attn"] / entry.median)
                if work.rows >= LONG[0] and work.tokens >= LONG[1]:
                    long_shares.append(entry.facts["of the bandwidth"])
    yield from _bars(bench, against_varlen, long_shares)
    for work in _chunks(bench):
        yield from _attention(bench, work, per_s, name="prompt chunk")
    yield from _operators(bench, per_s)
    yield from parts(bench)


def _decodes(bench: Bench) -> Iterator[Work]:
    tiny = Shape(heads=4, kv_heads=2, dim=32)
    for rows, tokens in bench.pick(DECODES, ((1, 40), (2, 33))):
        yield Work(bench.pick(QWEN3_8B, tiny), rows, 1, tokens)
    for rows, tokens in bench.pick(EIGHT_BIT, ((2, 33),)):
        for kv_dtype in (INT8, FP8):
            yield Work(
                bench.pick(Shape(heads=32, kv_dtype=kv_dtype), Shape(4, 2, 32, kv_dtype=kv_dtype)),
                rows,
                1,
                tokens,
            )


def _chunks(bench: Bench) -> Iterator[Work]:
    for rows, queries, tokens in bench.pick(CHUNKS, ((1, 5, 20),)):
        yield Work(bench.pick(QWEN3_8B, Shape(4, 2, 32)), rows, queries, tokens)


def _attention(bench: Bench, work: Work, per_s: float, *, name: str) -> Iterator[Entry]:
    stored = str(work.shape.kv_dtype or work.shape.dtype).removeprefix("torch.")
    title = f"{name} on {stored}, {work.name}"
    # The same K and V three times: ours, dense for torch, in other pages for varlen_attn.
    lack = bench.lacks_time(title, WORK_S) or bench.lacks_memory(title, 4 * work.kv_bytes)
    if lack is not None:
        yield lack
        return
    tensors = tensors_of(work, bench.device)
    launches = launches_of(work, tensors)
    ours = bench.watch.kernel(lambda: run_launches(launches))
    beside: dict[str, float] = {}
    note = ""
    if work.shape.kv_dtype is None:
        entries, beside, note = _peers(bench, work, tensors, title)
        yield from entries
    yield _figure(
        title, ours, work.moved_bytes, per_s, operations=work.operations, beside=beside, note=note
    )


def _peers(
    bench: Bench, work: Work, tensors: Tensors, title: str
) -> tuple[list[Entry], dict[str, float], str]:
    """Time torch's attention for the same work, and compare its results with ours."""
    entries: list[Entry] = []
    beside: dict[str, float] = {}
    note = ""
    try:
        peer = varlen(work, tensors, _varlen_attn(bench), settle=bench.watch.settle)
        note = peer.note
        entries.append(Case("paged attention and varlen_attn", title, peer.error))
        beside["varlen_attn"] = bench.watch.kernel(peer.attend).median * 1e6
    except (ImportError, RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        entries.append(Skip(f"varlen_attn, {title}", first_line(error)))
    plain = sdpa(work, tensors)
    if plain is not None:
        beside["SDPA, dense"] = bench.watch.kernel(plain).median * 1e6
    return entries, beside, note


def _varlen_attn(bench: Bench) -> Callable[..., object]:
    """Return torch's; raises where this torch or this device has none."""
    from torch.nn.attention.varlen import varlen_attn

    if bench.device.type != "cuda":
        raise RuntimeError("varlen_attn runs on CUDA devices alone")
    found: Callable[..., object] = varlen_attn
    return found


def _bars(bench: Bench, against_varlen: list[float], long_shares: list[float]) -> Iterator[Entry]:
    for name, shares, why in (
        (BESIDE_VARLEN, against_varlen, "varlen_attn could not be timed"),
        (LONG_BANDWIDTH, long_shares, "no decode of that length was timed"),
    ):
        if shares:
            yield bench.at_least(name, min(shares), LEAST_SHARE, "share", note="the least of all")
        else:
            yield Skip(name, why)


def _operators(bench: Bench, per_s: float) -> Iterator[Entry]:
    for work in operator_works(bench.device, is_tiny=bench.is_rehearsal):
        lack = bench.lacks_time(work.name, WORK_S)
        if lack is not None:
            yield lack
            continue
        try:
            prepared = work.prepare()
            times = bench.watch.kernel(prepared.run)
            beside = {
                name: bench.watch.kernel(peer).median * 1e6 for name, peer in prepared.peers.items()
            }
            yield _figure(work.name, times, prepared.moved_bytes, per_s, beside=beside)
        except Exception as error:  # one kernel that breaks leaves the others to be timed
            yield Fault(work.name, first_line(error))


def _figure(
    name: str,
    times: Times,
    moved_bytes: int,
    per_s: float,
    *,
    operations: int = 0,
    beside: dict[str, float] | None = None,
    note: str = "",
) -> Figure:
    speed = moved_bytes / times.median
    facts = {"MB": moved_bytes / 1e6, "GB/s": speed / 1e9, "of the bandwidth": speed / per_s}
    if operations:
        facts["TFLOP/s"] = operations / times.median / 1e12
    return Figure(
        name,
        "µs",
        times.median * 1e6,
        times.low * 1e6,
        times.high * 1e6,
        times.runs,
        beside or {},
        facts,
        note,
    )
