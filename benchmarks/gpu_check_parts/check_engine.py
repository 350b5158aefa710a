"""Check 2: the engine against transformers, by tokens in float32, by likelihoods in bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from gpu_check_parts.bench import Bench
from gpu_check_parts.comparing import same_answers
from gpu_check_parts.engine_uses import eight_bit, uses
from gpu_check_parts.entries import Case, Entry, Fault
from gpu_check_parts.families import FAMILIES, Family
from gpu_check_parts.figures import first_line
from gpu_check_parts.ours import Ours, Sizes

FAMILY_S = 4.0
SIZES = Sizes(kv_tokens=2_048, context_tokens=512, max_running=8, step_tokens=64)
PROMPTS = (1, 15, 16, 17, 70)
ANSWER_TOKENS = 24
SCORED_TOKENS = 120
TIMES_THEIRS = 2.0
"""Rounding to bfloat16 may move likelihoods as far as it moves transformers' own, twice at most."""

SLACK = 2e-3


def run(bench: Bench) -> Iterator[Entry]:
    """Yield comparisons: cold prompts, known beginnings, with and without graphs, two dtypes.

    Of the first family also what else an engine does, and KV in 8 bits.
    """
    names = bench.pick(list(FAMILIES), list(FAMILIES)[:1])
    parts: dict[tuple[str, str], Callable[[Bench, Family], Iterator[Entry]]] = {
        **{(name, "answers"): _family for name in names},
        (names[0], "uses"): uses,
        (names[0], "int8 KV"): eight_bit,
    }
    # Each part has kernels of its own to be compiled, so each has a process.
    for (name, what), part in bench.mine(parts):
        lack = bench.lacks_time(f"{name}, {what}", FAMILY_S)
        if lack is not None:
            yield lack
            continue
        try:
            yield from part(bench, Family(name, bench.device, num_layers=bench.pick(3, 1)))
        except Exception as error:  # one part that breaks leaves the others to be compared
            yield Fault(f"{name}, {what}", first_line(error))


def _family(bench: Bench, family: Family) -> Iterator[Entry]:
    state = family.state(torch.float32)
    lengths = bench.pick(PROMPTS, (17, 2))
    count = bench.pick(ANSWER_TOKENS, 2)
    for has_graphs in (True, False):
        how = "graphs" if has_graphs else "operator by operator"
        lack = bench.lacks_time(f"{family.name}, float32, {how}", FAMILY_S)
        if lack is not None:
            yield lack
            break
        ours = Ours(
            bench, family.config, SIZES, state=state, dtype=torch.float32, has_graphs=has_graphs
        )
        if has_graphs and ours.note:
            yield Fault(f"{family.name}, {how}", ours.note)
        prompts = [ours.prompt(length) for length in lengths]
        yield _tokens(family, ours, prompts, count, f"float32, {how}, cold")
        # The same again, and others behind the same beginning: found in memory, some in part.
        longest = max(prompts, key=len)
        known = [longest, (*longest[: len(longest) - 5], *ours.prompt(9))]
        yield _tokens(family, ours, known, count, f"float32, {how}, known beginnings")
        if bench.is_rehearsal:
            break
    yield bench.lacks_time(f"{family.name}, bfloat16, likelihoods", FAMILY_S) or _likelihoods(
        bench, family
    )


def _tokens(
    family: Family, ours: Ours, prompts: list[tuple[int, ...]], count: int, name: str
) -> Entry:
    """Compare the answers to all prompts at once with `generate`'s to one after the other."""
    got, usages = ours.answer(prompts, count)
    ours.core.check()
    want = [family.generate(prompt, count) for prompt in prompts]
    if "known" in name and not all(usage.cached_tokens for usage in usages):
        return Fault(f"{family.name}, {name}", "nothing was found in memory")
    return same_answers(f"{family.name}, {name}", got, want)


def _likelihoods(bench: Bench, family: Family) -> Entry:
    """Compare a prompt's likelihoods in bfloat16 with float32's, beside transformers' own."""
    state = family.state(torch.bfloat16)
    ours = Ours(bench, family.config, SIZES, state=state)
    prompt = ours.prompt(bench.pick(SCORED_TOKENS, 12))
    exact = family.logprobs(prompt, torch.float32)
    theirs = family.logprobs(prompt, torch.bfloat16)
    got = torch.tensor(ours.prompt_logprobs(prompt))
    allowed = TIMES_THEIRS * (theirs - exact).abs().mean() + SLACK
    error = float((got - exact).abs().mean() / allowed)
    return Case("engine and transformers", f"{family.name}, bfloat16, likelihoods", error)
