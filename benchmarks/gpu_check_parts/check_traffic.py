"""Check 8: requests a second on traffic of ShareGPT's lengths, against static batches."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence

from gpu_check_parts.bench import Bench
from gpu_check_parts.checks import REQUESTS
from gpu_check_parts.choosing import give_back, largest
from gpu_check_parts.entries import Entry, Figure, Skip
from gpu_check_parts.figures import first_line
from gpu_check_parts.ours import Ours, Sizes
from gpu_check_parts.shapes import QWEN3_06B
from gpu_check_parts.theirs import Theirs
from localpaged.decoder_config import DecoderConfig

MEAN_PROMPT, MEAN_ANSWER = 161, 338
"""ShareGPT's means, as in the PagedAttention paper (SOSP 2023, section 6)."""

SPREAD = 0.8
"""Of the lognormal lengths; the paper's histograms have long tails."""

MOST_TOKENS = 512
"""Longer prompts and answers are cut: the static batches take as long as their longest one."""

POOL_TOKENS = 65_536
LEAST_POOL_TOKENS = 16_384
REQUESTS_A_SLOT = 4
BATCH_S = 22.0
LEAST_TIMES = 3.0

Lengths = list[tuple[int, int]]


def run(bench: Bench) -> Iterator[Entry]:
    """Yield requests a second of both: the same KV memory, the same lengths, Qwen3 0.6B."""
    sizes = _sizes(bench)
    if isinstance(sizes, Skip):
        yield sizes
        yield Skip(REQUESTS, sizes.why)
        return
    chosen = largest(bench, sizes, names=(QWEN3_06B,))
    if isinstance(chosen, Skip):
        yield chosen
        yield Skip(REQUESTS, chosen.why)
        return
    name, config = chosen
    batch = sizes.kv_tokens // sizes.context_tokens
    count = batch * bench.pick(REQUESTS_A_SLOT, 2)
    lengths = draw(count, seed=1, most=bench.pick(MOST_TOKENS, 3))
    title = f"{name}, {sizes.kv_tokens:,} tokens of KV, ShareGPT's lengths"
    ours = _ours(bench, config, sizes, lengths, title)
    yield ours
    give_back(bench)
    lack = bench.lacks_time(f"{title}, static batches", BATCH_S)
    if lack is not None:
        yield lack
        yield Skip(REQUESTS, lack.why)
        return
    try:
        theirs = _theirs(bench, config, lengths[:batch], title)
    except Exception as error:  # a fault of theirs is none of ours
        yield Skip(REQUESTS, f"transformers: {first_line(error)}")
        return
    yield theirs
    yield bench.at_least(REQUESTS, ours.median / theirs.median, LEAST_TIMES, "times", note=name)


def draw(count: int, *, seed: int, most: int = MOST_TOKENS) -> Lengths:
    """Return (prompt, answer) lengths in tokens."""
    random_numbers = random.Random(seed)

    def one(mean: int) -> int:
        middle = math.log(mean) - SPREAD**2 / 2
        return min(max(1, round(random_numbers.lognormvariate(middle, SPREAD))), most)

    return [(one(MEAN_PROMPT), one(MEAN_ANSWER)) for _ in range(count)]


def _sizes(bench: Bench) -> Sizes | Skip:
    """Return the largest pool that fits; a static batch reserves the longest request for each."""
    if bench.is_rehearsal:
        return Sizes(96, 48, 2, 64)
    tokens = POOL_TOKENS
    while True:
        sizes = Sizes(tokens, 2 * MOST_TOKENS, min(256, tokens // 256))
        found = largest(bench, sizes, names=(QWEN3_06B,))
        if not isinstance(found, Skip):
            return sizes
        if tokens <= LEAST_POOL_TOKENS:
            return found
        tokens //= 2


def _ours(
    bench: Bench, config: DecoderConfig, sizes: Sizes, lengths: Lengths, title: str
) -> Figure:
    engine = Ours(bench, config, sizes)
    # Every graph and kernel once, before time is taken.
    warm = [engine.prompt(20 + place) for place in range(sizes.max_running)]
    # They end one after the other, four at a time: so every number of rows is met.
    engine.answer(warm, [2 + place // 4 for place in range(len(warm))])
    prompts = [engine.prompt(prompt) for prompt, _ in lengths]
    started_s = time.perf_counter()
    engine.answer(prompts, [answer for _, answer in lengths])
    took_s = time.perf_counter() - started_s
    return _figure(f"{title}, localpaged", lengths, took_s)


def _theirs(bench: Bench, config: DecoderConfig, lengths: Lengths, title: str) -> Figure:
    theirs = Theirs(bench, config)
    prompts = [prompt for prompt, _ in lengths]
    theirs.generate_s(prompts, 2)
    took_s = theirs.generate_s(prompts, max(answer for _, answer in lengths))
    return _figure(f"{title}, transformers in a static batch of {len(lengths)}", lengths, took_s)


def _figure(title: str, lengths: Sequence[tuple[int, int]], took_s: float) -> Figure:
    rate = len(lengths) / took_s
    tokens = sum(answer for _, answer in lengths)
    return Figure(
        title, "requests/s", rate, rate, rate, 1, {}, {"tok/s": tokens / took_s, "s": took_s}
    )
