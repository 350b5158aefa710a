"""Check 7: the first token of a prompt of 4,000 tokens, read for the first time and known."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_check_parts.bench import Bench
from gpu_check_parts.checks import WARM
from gpu_check_parts.choosing import largest
from gpu_check_parts.entries import Entry, Fault, Skip
from gpu_check_parts.figures import milliseconds
from gpu_check_parts.ours import Ours, Sizes
from gpu_check_parts.stopwatch import times_of

SHARED_TOKENS, OWN_TOKENS = 4_000, 16
RUNS = 5
RUN_S = 2.0
LEAST_TIMES = 10.0


def run(bench: Bench) -> Iterator[Entry]:
    """Yield both times and how often one goes into the other; the first pair warms up."""
    shared, own = bench.pick((SHARED_TOKENS, OWN_TOKENS), (16, 2))
    sizes = bench.pick(Sizes((RUNS + 1) * 4_096, 8_192, 4), Sizes(256, 128, 4, 64))
    chosen = largest(bench, sizes)
    if isinstance(chosen, Skip):
        yield chosen
        yield Skip(WARM, chosen.why)
        return
    name, config = chosen
    ours = Ours(bench, config, sizes)
    cold_s, warm_s = [], []
    for place in range(bench.pick(RUNS + 1, 2)):
        lack = bench.lacks_time(f"run {place} of {RUNS}", RUN_S)
        if lack is not None:
            yield lack
            break
        beginning = ours.prompt(shared)
        _, (cold,) = ours.answer([(*beginning, *ours.prompt(own))], 1)
        _, (warm,) = ours.answer([(*beginning, *ours.prompt(own))], 1)
        if cold.cached_tokens or warm.cached_tokens < shared - 16:
            yield Fault(name, f"{warm.cached_tokens:,} of {shared:,} tokens were found in memory")
            return
        if place:
            cold_s.append(cold.ttft_s)
            warm_s.append(warm.ttft_s)
    if not cold_s:
        yield Skip(WARM, "no run was finished")
        return
    what = f"{name}, first token of {shared + own:,} tokens"
    yield milliseconds(f"{what}, read for the first time", cold_s)
    yield milliseconds(f"{what}, {shared:,} of them known", warm_s)
    times = times_of(cold_s).median / times_of(warm_s).median
    yield bench.at_least(WARM, times, LEAST_TIMES, "times", note=name)
