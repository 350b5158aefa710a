"""Check 4: tokens a second at 1, 8, 32 and 256 sequences, beside transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch

from gpu_check_parts.bench import Bench
from gpu_check_parts.check_machine import bandwidth
from gpu_check_parts.checks import HALF_BANDWIDTH, MANY
from gpu_check_parts.choosing import TINY_NAME, give_back, largest
from gpu_check_parts.entries import Entry, Figure, Skip
from gpu_check_parts.figures import first_line, many, per_second
from gpu_check_parts.ours import Ours, Sizes, random_state
from gpu_check_parts.shapes import QWEN3_4B, QWEN3_8B, num_parameters
from gpu_check_parts.stopwatch import times_of
from gpu_check_parts.theirs import Theirs
from localpaged.decoder_config import DecoderConfig
from localpaged.models.weight_forms import INT4

SEQUENCES = (1, 8, 32, 256)
PROMPT_TOKENS, ROOM_TOKENS = 128, 96
STEPS, WARM_STEPS = 30, 6
THEIR_STEPS = 24
CONTINUOUS = (32, 256)
CONTINUOUS_TOKENS = 32
OUR_S, PACKED_S, THEIR_S, CONTINUOUS_S = 4.0, 5.0, 6.0, 8.0
MODEL_S = 18.0
LEAST_SHARE, LEAST_TIMES = 0.65, 10.0
LARGE = (TINY_NAME, QWEN3_8B, QWEN3_4B)
"""Models of which a share of the bandwidth is asked; smaller ones are held up by their launches."""


def run(bench: Bench) -> Iterator[Entry]:
    """Yield our figures, then theirs beside them: of the largest model that has room for each."""
    speed = bandwidth(bench)
    yield speed
    counts = bench.pick(SEQUENCES, (1, 2))
    plans: dict[str, tuple[DecoderConfig, list[int]]] = {}
    for count in counts:
        chosen = largest(bench, sizes_for(bench, count))
        if isinstance(chosen, Skip):
            yield Skip(f"{many(count)}: {chosen.what}", chosen.why)
            continue
        plans.setdefault(chosen[0], (chosen[1], []))[1].append(count)
    if not any(counts[-1] in wanted for _, wanted in plans.values()):
        yield Skip(MANY, "no model has room for so many")
    for place, (name, (config, wanted)) in enumerate(plans.items()):
        # What has no bar must not take the time of a model that has one.
        kept_s = MODEL_S * (len(plans) - 1 - place)
        yield from _model(bench, name, config, wanted, per_s=speed.median * 1e9, kept_s=kept_s)
        give_back(bench)


def sizes_for(bench: Bench, sequences: int) -> Sizes:
    """Return the sizes of an engine for so many sequences."""
    if bench.is_rehearsal:
        return Sizes(256, 128, 4, 64)
    return Sizes(sequences * (PROMPT_TOKENS + ROOM_TOKENS), 1_024, max(sequences, 8))


def _model(
    bench: Bench,
    name: str,
    config: DecoderConfig,
    counts: list[int],
    *,
    per_s: float,
    kept_s: float,
) -> Iterator[Entry]:
    ours: dict[int, Figure] = {}
    engine = Ours(bench, config, sizes_for(bench, max(counts)))
    for count in counts:
        lack = bench.lacks_time(f"{name}, {many(count)}", OUR_S)
        if lack is not None:
            yield lack
            continue
        moved = _moved_bytes(config, count, bench.pick(PROMPT_TOKENS, 5))
        ours[count] = _ours(bench, engine, name, moved, count, per_s)
        yield ours[count]
        if count == 1:
            yield _share_bar(bench, name, ours[count])
    del engine
    give_back(bench)
    if 1 in ours:
        yield _packed(bench, name, config, ours[1], per_s=per_s, kept_s=kept_s)
        give_back(bench)
    lack = bench.lacks_time(f"transformers with {name}", 2 * THEIR_S + kept_s)
    if lack is not None:
        yield lack
        return
    yield from _theirs(bench, name, config, ours, kept_s=kept_s)


def _packed(
    bench: Bench,
    name: str,
    config: DecoderConfig,
    wide: Figure,
    *,
    per_s: float,
    kept_s: float,
) -> Figure | Skip:
    """Time one sequence with weights in 4 bits, as far as what has bars leaves the time."""
    title = f"{name} in 4 bits"
    lack = bench.lacks_time(title, PACKED_S + 2 * THEIR_S + kept_s)
    if lack is not None:
        return lack
    place = bench.device
    state = random_state(config, place, torch.bfloat16, weights=INT4)
    embedding = 0 if config.is_tied else state["embed.int4"].nbytes
    weights = sum(tensor.nbytes for tensor in state.values()) - embedding
    engine = Ours(bench, config, sizes_for(bench, 1), state=state)
    moved = weights + bench.pick(PROMPT_TOKENS, 5) * config.kv_bytes_per_token(2)
    figure = _ours(bench, engine, title, moved, 1, per_s)
    return replace(figure, beside={"in 16 bits": wide.median})


def _ours(
    bench: Bench, engine: Ours, name: str, moved_bytes: int, count: int, per_s: float
) -> Figure:
    prompt_tokens = bench.pick(PROMPT_TOKENS, 5)
    steps = engine.decode_steps(
        count,
        prompt_tokens=prompt_tokens,
        steps=bench.pick(STEPS, 1),
        warm_steps=bench.pick(WARM_STEPS, 1),
    )
    step_s = times_of(steps.seconds).median
    share = moved_bytes / step_s / per_s
    return per_second(
        f"{name}, {many(count)}, localpaged",
        "tok/s",
        count,
        steps.seconds,
        facts={"ms a step": step_s * 1e3, "of the bandwidth": share},
        note=engine.note,
    )


def _moved_bytes(config: DecoderConfig, sequences: int, tokens: int) -> int:
    """Return the bytes of weights and KV that a step has to read, and nothing else."""
    embedding = 0 if config.is_tied else config.vocab_size * config.hidden_size
    weights = (num_parameters(config) - embedding) * 2
    return weights + sequences * tokens * config.kv_bytes_per_token(2)


def _share_bar(bench: Bench, name: str, figure: Figure) -> Entry:
    if name not in LARGE:
        return Skip(HALF_BANDWIDTH, f"{name} is the largest model that fits, 4B is asked for")
    share = figure.facts["of the bandwidth"]
    return bench.at_least(HALF_BANDWIDTH, share, LEAST_SHARE, "share", note=name)


def _theirs(
    bench: Bench, name: str, config: DecoderConfig, ours: dict[int, Figure], *, kept_s: float
) -> Iterator[Entry]:
    """Time transformers at the same numbers of sequences; a fault of theirs is none of ours."""
    try:
        theirs = Theirs(bench, config)
    except Exception as error:  # whatever it does not find on this machine
        yield Skip(f"transformers with {name}", first_line(error))
        return
    prompt_tokens = bench.pick(PROMPT_TOKENS, 5)
    steps, num_tokens = bench.pick((THEIR_STEPS, CONTINUOUS_TOKENS), (2, 2))
    # One by one is as fast as one alone.
    for count in dict.fromkeys((1, *ours)):
        figure = _theirs_figure(
            bench,
            f"{name}, {many(count)}, transformers generate",
            partial(theirs.decode_per_s, count, prompt_tokens=prompt_tokens, steps=steps),
            needed_s=THEIR_S + kept_s,
            beside={"localpaged": ours[count].median} if count in ours else {},
        )
        yield figure
        if count == 1 and max(ours, default=0) == bench.pick(SEQUENCES[-1], 2):
            yield _many_bar(bench, name, ours[max(ours)], figure)
    for count in [each for each in bench.pick(CONTINUOUS, (2,)) if each in ours]:
        yield _theirs_figure(
            bench,
            f"{name}, {many(count)}, transformers continuous batching, prompts read as well",
            partial(
                theirs.continuous_per_s, count, prompt_tokens=prompt_tokens, num_tokens=num_tokens
            ),
            needed_s=CONTINUOUS_S + kept_s,
            beside={"localpaged, decoding": ours[count].median},
        )


def _many_bar(bench: Bench, name: str, ours: Figure, one_by_one: Figure | Skip) -> Entry:
    if isinstance(one_by_one, Skip):
        return Skip(MANY, one_by_one.why)
    times = ours.median / one_by_one.median
    return bench.at_least(MANY, times, LEAST_TIMES, "times", note=name)


def _theirs_figure(
    bench: Bench,
    title: str,
    measure: Callable[[], float],
    *,
    needed_s: float,
    beside: Mapping[str, float],
) -> Figure | Skip:
    """Return their tokens a second; what does not run on this machine is none of our faults."""
    lack = bench.lacks_time(title, needed_s)
    if lack is not None:
        return lack
    try:
        made = measure()
    except Exception as error:  # such as a card's memory that does not suffice for it
        return Skip(title, first_line(error))
    return Figure(title, "tok/s", made, made, made, 1, beside)
