"""What the engine does beside plain answers: samples, beams, small pools, KV in 8 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from gpu_check_parts.bench import Bench
from gpu_check_parts.comparing import same_answers
from gpu_check_parts.entries import Case, Entry, Fault
from gpu_check_parts.families import Family
from gpu_check_parts.ours import Ours, Sizes
from localpaged.engine.params import BeamParams

SIZES = Sizes(kv_tokens=2_048, context_tokens=256, max_running=8, step_tokens=64)
SAMPLES, BEAMS = 3, 3
PROMPT_TOKENS, ANSWER_TOKENS = 50, 40
CROWD = 4
"""Prompts that a small pool has no room for at once."""

TIMES_ROUNDING = 3.0
"""What 8-bit KV may move likelihoods by, in what bfloat16 moves them: a number in 8 bits
is off by 1/254 of its row's largest at most, one in bfloat16 by 1/256 of itself."""

SLACK = 5e-3


def uses(bench: Bench, family: Family) -> Iterator[Entry]:
    """Yield comparisons of samples, beams and a pool too small with what transformers answers."""
    state = family.state(torch.float32)
    count, length = bench.pick((ANSWER_TOKENS, PROMPT_TOKENS), (2, 17))
    ours = Ours(bench, family.config, SIZES, state=state, dtype=torch.float32)
    prompt = ours.prompt(length)
    greedy = family.generate(prompt, count)
    got = ours.branches(prompt, count, num_samples=SAMPLES)
    yield same_answers(_title(family, f"{SAMPLES} samples of one prompt"), got, [greedy] * SAMPLES)
    width = bench.pick(BEAMS, 2)
    got = ours.branches(prompt, count, num_samples=width, beam=BeamParams(width))
    yield same_answers(
        _title(family, f"{width} beams"), got, family.beams(prompt, count, width=width)
    )
    ours.core.check()
    if ours.core.snapshot().block_copies == 0:
        yield Fault(f"{family.name}, branches", "no block was copied")
    for host_blocks in bench.pick((0, 64), (8,)):
        yield _crowd(bench, family, host_blocks, state, greedy_tokens=count, length=length)


def eight_bit(bench: Bench, family: Family) -> Iterator[Entry]:
    """Yield comparisons of int8 KV: likelihoods, and answers of a pool too small with others."""
    prompt = Ours(bench, family.config, SIZES, state=family.state(torch.float32)).prompt(
        bench.pick(120, 12)
    )
    exact = family.logprobs(prompt, torch.float32)
    theirs = family.logprobs(prompt, torch.bfloat16)
    state = family.state(torch.bfloat16)
    ours = Ours(bench, family.config, SIZES, state=state, kv_dtype=torch.int8)
    got = torch.tensor(ours.prompt_logprobs(prompt))
    allowed = TIMES_ROUNDING * (theirs - exact).abs().mean() + SLACK
    error = float((got - exact).abs().mean() / allowed)
    yield Case("engine and transformers", f"{family.name}, int8 KV, likelihoods", error)
    yield _crowd(
        bench,
        family,
        bench.pick(64, 8),
        family.state(torch.float32),
        greedy_tokens=bench.pick(ANSWER_TOKENS, 2),
        length=bench.pick(PROMPT_TOKENS, 17),
        kv_dtype=torch.int8,
    )


def _crowd(
    bench: Bench,
    family: Family,
    host_blocks: int,
    state: dict[str, torch.Tensor],
    *,
    greedy_tokens: int,
    length: int,
    kv_dtype: torch.dtype | None = None,
) -> Entry:
    """Compare answers of a pool that is too small for all, asked twice, with what is right."""
    crowd = bench.pick(CROWD, 2)
    needed = -(-(length + greedy_tokens) // 16)
    least = replace(
        SIZES,
        kv_tokens=16 * max(needed * crowd * 2 // 3, needed + 1),
        context_tokens=16 * (needed + 1),
        max_running=crowd,
        spare_blocks=-crowd,
        host_blocks=host_blocks,
    )
    how = "swapped" if host_blocks else "read again"
    name = f"a pool too small, {how}" + (", int8 KV" if kv_dtype else "")
    ours = Ours(bench, family.config, least, state=state, dtype=torch.float32, kv_dtype=kv_dtype)
    prompts = [ours.prompt(length) for _ in range(crowd)]
    got = ours.answer(prompts, greedy_tokens)[0] + ours.answer(prompts, greedy_tokens)[0]
    ours.core.check()
    told = ours.core.snapshot()
    if not bench.is_rehearsal and (
        not told.preemptions or bool(host_blocks) > told.swapped_in_blocks
    ):
        return Fault(
            f"{family.name}, {name}",
            f"{told.preemptions} preempted, {told.swapped_in_blocks} blocks came back",
        )
    if kv_dtype is None:
        want = [family.generate(prompt, greedy_tokens) for prompt in prompts]
    else:
        plenty = Ours(
            bench, family.config, SIZES, state=state, dtype=torch.float32, kv_dtype=kv_dtype,
            has_graphs=False,
        )  # fmt: skip
        want = plenty.answer(prompts, greedy_tokens)[0]
    return same_answers(_title(family, name), got, want * 2)


def _title(family: Family, what: str) -> str:
    return f"{family.name}, float32, {what}"
