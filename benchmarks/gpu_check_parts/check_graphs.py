"""Check 5: decode steps as graphs and operator by operator, and the host's part of a step."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gpu_check_parts.bench import Bench
from gpu_check_parts.checks import HOST_WORK
from gpu_check_parts.choosing import give_back, largest
from gpu_check_parts.compiled import Compiled
from gpu_check_parts.entries import Entry, Fault, Figure, Skip
from gpu_check_parts.figures import many, milliseconds
from gpu_check_parts.ours import Ours, Sizes, Steps
from gpu_check_parts.shapes import MODELS, QWEN3_06B
from gpu_check_parts.stopwatch import times_of
from localpaged.decoder_config import DecoderConfig

PROMPT_TOKENS = 500
FIRST_PROMPTS = (3, 17, 63, 65, 300, 301)
"""What is asked first after loading, for which nothing may be compiled."""

STEPS, WARM_STEPS = 40, 6
MODEL_S = 6.0
JUDGED_SEQUENCES = 32
MOST_HOST_MS = 1.0


def run(bench: Bench) -> Iterator[Entry]:
    """Yield a step's time with graphs and without, and the host's part of it.

    The small model first: a host that is slow holds it up most. Then the largest that fits.
    """
    sizes = bench.pick(
        Sizes(JUDGED_SEQUENCES * 640, 2_048, JUDGED_SEQUENCES), Sizes(256, 128, 4, 64)
    )
    large = tuple(name for name in MODELS if name != QWEN3_06B)
    for names in bench.pick(((QWEN3_06B,), large), ((QWEN3_06B,),)):
        chosen = largest(bench, sizes, names=names)
        if isinstance(chosen, Skip):
            yield chosen
            if QWEN3_06B in names:
                yield Skip(HOST_WORK, chosen.why)
            continue
        lack = bench.lacks_time(f"graphs of {chosen[0]}", MODEL_S)
        if lack is not None:
            yield lack
            continue
        yield from _model(bench, *chosen, sizes, is_judged=QWEN3_06B in names)
        give_back(bench)


def _model(
    bench: Bench, name: str, config: DecoderConfig, sizes: Sizes, *, is_judged: bool
) -> Iterator[Entry]:
    medians: dict[int, float] = {}
    judged = bench.pick(JUDGED_SEQUENCES, 2)
    counts = bench.pick((1, JUDGED_SEQUENCES), (judged,))
    started_s = time.perf_counter()
    ours = Ours(bench, config, sizes, is_warm=is_judged)
    if is_judged:
        made = time.perf_counter() - started_s
        yield milliseconds(f"{name}: weights made, kernels compiled, a step recorded", [made])
    if ours.note:
        yield Fault(f"{name}: graphs", ours.note)
    taken = ours.runner.inner.graph_bytes / 2**20
    yield Figure(f"{name}: what recording a step takes", "MiB", taken, taken, taken, 1)
    compiled = Compiled()
    if is_judged:
        ours.answer([ours.prompt(each) for each in bench.pick(FIRST_PROMPTS, (5,))], 2)
        if compiled.names:
            yield Fault(f"{name}: compiled for who asked first", ", ".join(compiled.names))
    for sequences in counts:
        title = f"{name}, {many(sequences)}"
        steps = _steps(bench, ours, sequences)
        medians[sequences] = times_of(steps.seconds).median
        if not steps.num_ahead:
            yield Fault(title, "no step was launched ahead of the tokens of the one before it")
        yield milliseconds(f"{title}: a step as a graph", steps.seconds)
        yield milliseconds(f"{title}: the host's part of it", steps.host_seconds)
        if is_judged and sequences == judged:
            host_ms = times_of(steps.host_seconds).median * 1e3
            yield bench.at_most(HOST_WORK, host_ms, MOST_HOST_MS, "ms", note=name)
    del ours
    give_back(bench)
    plain = Ours(bench, config, sizes, has_graphs=False)
    for sequences in counts:
        yield milliseconds(
            f"{name}, {many(sequences)}: a step operator by operator",
            _steps(bench, plain, sequences).seconds,
            beside={"as a graph": medians[sequences] * 1e3},
        )


def _steps(bench: Bench, ours: Ours, sequences: int) -> Steps:
    return ours.decode_steps(
        sequences,
        prompt_tokens=bench.pick(PROMPT_TOKENS, 5),
        steps=bench.pick(STEPS, 1),
        warm_steps=bench.pick(WARM_STEPS, 1),
    )
