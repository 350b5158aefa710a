"""A model, not a measurement: how near to a card's bandwidth a decode step may come.

    python benchmarks/gpu_step_model.py [--write]

`gpu_model.py` counts bytes; here is what keeps a step from moving them at full speed: bytes on
their way, cycles that a tile takes (`gpu_issue_model.py`), programs that do not fill all
processors, launches and the waits at their ends. What cards are assumed to do is in `PACES` and the
constants; nothing of it was measured by us. `--write` brings the tables into docs/gpu.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gpu_check_parts.shapes import MODELS, QWEN3_4B, QWEN3_8B
from gpu_model import CARDS, Peak, kernels_of, print_or_write, table
from localpaged.decoder_config import DecoderConfig
from localpaged_kernels.card import Card
from localpaged_kernels.paged_attention.device_rows import DeviceRows
from localpaged_kernels.paged_attention.triton_launches import programs_of, splits_for
from localpaged_kernels.paged_attention.triton_shape import PROGRAMS_A_PROCESSOR, shape_of

MARKS = ("<!-- step model: begin -->", "<!-- step model: end -->")
"""What the tables stand between in the document."""

MEASURED = 0.9
"""The share of the published bandwidth that a copy reaches; bars are of what is measured."""

GAP_S = 1.3e-6
"""From the end of a graph's node to the begin of the next one."""

TRIP_S = 0.6e-6
"""To memory and back where nobody waits in line, as at a kernel's begin and end."""

OWN_LINEARS = 0.92
"""The share of the bandwidth at which our kernel reads matrices for a row: its last programs do not
fill all processors."""

PARTS_AT_ONCE = 8
DRAW_PASSES, PROCESSOR_BYTES = 3, 64
"""A draw is one processor's, reads its logits so many times, and so many bytes of them a cycle."""

CONTEXT_BLOCKS = 2_560
LAYERS_OWN, LAYERS_APART = 6, 10
"""Nodes of a layer: with norms and gate in the projections; each apart, parts merged by a second
launch."""

TRIPS = {"project": 2, "norm": 2, "gate": 2, "write": 3, "attend": 4, "merge launch": 2}
"""Round trips that a kernel waits for one after the other before it moves much, and at its end."""

BAR_STEP, BAR_ATTENTION = 0.65, 0.8


@dataclass(frozen=True, slots=True)
class Loop:
    """Attention's loop on a kind of card: tokens of a tile, its code, and cycles for 1, 2 programs.

    `python benchmarks/gpu_issue_model.py` tells the numbers.
    """

    tile: int
    instructions: int
    cycles: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pace:
    """What a card is assumed to do; latency is that of memory under load.

    `library_linears` is the share of the bandwidth at which the vendor's library reads matrices of
    20 to 100 MB for a row: of fast memory less.
    """

    processors: int
    clock_hz: float
    latency_s: float
    library_linears: float = 0.9


PACES = {
    "RTX 4060": Pace(24, 2.46e9, 600e-9),
    "RTX 4090": Pace(128, 2.52e9, 600e-9),
    "RTX 5090": Pace(170, 2.41e9, 700e-9),
    "H200 SXM": Pace(132, 1.755e9, 900e-9, library_linears=0.75),
}
LOOPS = {
    ((8, 9), "bfloat16"): Loop(32, 234, (1091, 1418)),
    ((8, 9), "int8"): Loop(32, 565, (1434, 1829)),
    ((12, 0), "bfloat16"): Loop(32, 233, (1153, 1520)),
    ((12, 0), "int8"): Loop(32, 544, (1425, 1892)),
    ((9, 0), "bfloat16"): Loop(64, 363, (1520, 2062)),
    ((9, 0), "int8"): Loop(64, 886, (2064, 2964)),
}
PLAIN = Loop(32, 389, (1793, 2225))
"""sm_90 where K and V have addresses of their own, sums are put together tile by tile, and a tile
is 32 tokens."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Decodes of one layer on a card: `programs` that all read as much, at `bytes_per_s`."""

    parts: int
    programs: int
    bytes_in_flight: float
    bytes_needed: float
    seconds: float
    share: float


def attention(
    card: Peak,
    config: DecoderConfig,
    *,
    rows: int,
    tokens: int,
    kv_format: str = "bfloat16",
    loop: Loop | None = None,
) -> Attention:
    """Return what is expected of the decodes of `rows` sequences of so many tokens."""
    pace = PACES[card.name]
    loop = loop or LOOPS[card.capability, kv_format]
    token_bytes = 2 * (config.head_dim * 2 if kv_format == "bfloat16" else config.head_dim + 4)
    parts = parts_of(card, config, rows=rows, tokens=tokens, tile=loop.tile)
    programs = rows * config.num_kv_heads * parts
    places = PROGRAMS_A_PROCESSOR * pace.processors
    moved = rows * config.num_kv_heads * tokens * token_bytes
    seconds = (TRIPS["attend"] + merging_trips(parts)) * TRIP_S
    full, rest = divmod(programs, places)
    for count in [places] * full + [rest] * bool(rest):
        speed = _bytes_per_s(card, pace, loop, token_bytes, count)
        seconds += moved * count / programs / speed
    return Attention(
        parts,
        programs,
        min(programs / pace.processors, PROGRAMS_A_PROCESSOR) * loop.tile * token_bytes,
        card.bytes_per_s * MEASURED / pace.processors * pace.latency_s,
        seconds,
        moved / seconds / (card.bytes_per_s * MEASURED),
    )


def _bytes_per_s(card: Peak, pace: Pace, loop: Loop, token_bytes: int, programs: int) -> float:
    """Return what so many programs read a second, two a processor at most."""
    tile_bytes = loop.tile * token_bytes
    one, two = (
        # One tile is on its way while the one before is computed, and is begun behind that.
        count * tile_bytes / max(busy_s, (pace.latency_s + busy_s) / 2)
        for count, busy_s in ((n + 1, c / pace.clock_hz) for n, c in enumerate(loop.cycles))
    )
    twice = max(programs - pace.processors, 0)
    once = min(programs, pace.processors) - twice
    return min(once * one + twice * two, card.bytes_per_s * MEASURED)


def merging_trips(parts: int) -> int:
    """Return for how many round trips the last part reads the others, of a group of four heads."""
    return 0 if parts == 1 else 1 + -(-parts // PARTS_AT_ONCE)


def parts_of(card: Peak, config: DecoderConfig, *, rows: int, tokens: int, tile: int) -> int:
    """Return in how many parts sequences of one length are cut, as rule and kernel decide."""
    kind = Card(card.capability, PACES[card.name].processors)
    tables = torch.empty(rows, CONTEXT_BLOCKS, dtype=torch.int32, device="meta")
    lens = tables[:, 0]
    queries = torch.empty(
        rows, config.num_heads, config.head_dim, dtype=torch.bfloat16, device="meta"
    )
    size = (1, 16, 2, config.num_kv_heads, config.head_dim)
    kv = torch.empty(size, dtype=torch.bfloat16, device="meta")
    device_rows = DeviceRows(tables, lens, None, 0, rows, lens[:1])
    shape = shape_of(queries, kv, device_rows, kind)
    most = splits_for(rows * config.num_kv_heads, device_rows, kv, shape, kind, is_balanced=True)
    tiles = -(-tokens // tile)
    share = int(programs_of(kind) / config.num_kv_heads / rows)
    parts = max(min(share, most, tiles), 1)
    return -(-tiles // -(-tiles // parts))


@dataclass(frozen=True, slots=True)
class Step:
    """A decode step of one sequence: nodes, and where its time goes."""

    nodes: int
    gaps_s: float
    trips_s: float
    moving_s: float
    share: float


def step(card: Peak, config: DecoderConfig, *, is_fused: bool, tokens: int = 1_000) -> Step:
    """Return what is expected of a step of one sequence."""
    layers = config.num_layers
    kinds = ["project"] * 4 + ["write", "attend"]
    kinds += [] if is_fused else ["norm", "norm", "gate", "merge launch"]
    # Before the layers the token is chosen and looked up, behind them logits are made and drawn.
    ends = 13
    nodes = layers * (LAYERS_OWN if is_fused else LAYERS_APART) + ends
    trips = sum(TRIPS[kind] for kind in kinds)
    if is_fused:
        tile = LOOPS[card.capability, "bfloat16"].tile
        trips += merging_trips(parts_of(card, config, rows=1, tokens=tokens, tile=tile))
    trips_s = (layers * trips + 2 * ends) * TRIP_S
    logits_bytes = config.vocab_size * 4
    draw_s = DRAW_PASSES * logits_bytes / (PROCESSOR_BYTES * PACES[card.name].clock_hz)
    trips_s += draw_s
    moved = [k.runs * k.moved_bytes for k in kernels_of(config, sequences=1, tokens=tokens)]
    head = config.hidden_size * config.vocab_size * 2
    speed = card.bytes_per_s * MEASURED
    linears = OWN_LINEARS if is_fused else PACES[card.name].library_linears
    moving_s = (sum(moved) - head) / linears / speed + head / OWN_LINEARS / speed
    seconds = nodes * GAP_S + trips_s + moving_s
    return Step(nodes, nodes * GAP_S, trips_s, moving_s, sum(moved) / seconds / speed)


def tables() -> str:
    """Return all tables as Markdown."""
    return "\n\n".join((_attention_table(), _step_table(), _assumed()))


def _attention_table() -> str:
    rows = [
        [
            "card, KV", "sequences", "parts", "programs", "KB on their way, of needed",
            "µs", "of the bandwidth",
        ]
    ]  # fmt: skip
    rows += [list(_attention_row(*work)) for work in _works()]
    return (
        f"Attention of one layer of {QWEN3_8B}; at least {BAR_ATTENTION:.0%} is the bar from 8"
        f" sequences of 8,000 tokens on:\n\n{table(rows)}"
    )


def _works() -> Iterator[tuple[str, Peak, str, Loop | None, int, int]]:
    h200, ada, blackwell = CARDS[3], CARDS[1], CARDS[2]
    sizes = ((1, 1_000), (1, 8_000), (8, 1_000), (8, 8_000), (32, 1_000), (32, 8_000), (256, 1_000))
    for card, kv_format in ((ada, "bfloat16"), (blackwell, "bfloat16"), (h200, "bfloat16")):
        for rows, tokens in sizes:
            yield card.name, card, kv_format, None, rows, tokens
    for card in (ada, blackwell, h200):
        yield f"{card.name}, int8", card, "int8", None, 8, 8_000
    yield "H200 SXM, a plain loop", h200, "bfloat16", PLAIN, 8, 8_000


def _attention_row(
    name: str, card: Peak, kv_format: str, loop: Loop | None, rows: int, tokens: int
) -> Iterator[str]:
    made = attention(
        card, MODELS[QWEN3_8B], rows=rows, tokens=tokens, kv_format=kv_format, loop=loop
    )
    mark = ""
    is_barred = rows >= 8 and tokens >= 8_000 and kv_format == "bfloat16"
    if is_barred and made.share < BAR_ATTENTION:
        mark = ", below the bar"
    yield name
    yield f"{rows} of {tokens:,}"
    yield str(made.parts)
    yield str(made.programs)
    yield f"{made.bytes_in_flight / 1e3:.0f} of {made.bytes_needed / 1e3:.0f}"
    yield f"{made.seconds * 1e6:,.1f}"
    yield f"{min(made.share, 1):.0%}{mark}"


def _step_table() -> str:
    rows = [
        [
            "model, card",
            "layer's nodes",
            "nodes",
            "between, ms",
            "waits, ms",
            "moving, ms",
            "of the bandwidth",
        ]
    ]
    for name, config in MODELS.items():
        for card in CARDS:
            if config.num_layers and _fits(config, card):
                rows += [list(_step_row(name, card, is_fused=fused)) for fused in (False, True)]
    return (
        f"A step of one sequence of 1,000 tokens as a graph, in bfloat16; at least {BAR_STEP:.0%}"
        f" is the bar from 4B on:\n\n{table(rows)}\n\n"
        f"{QWEN3_4B} on the {CARDS[3].name} meets it up to"
        f" {most_gap_s(CARDS[3], MODELS[QWEN3_4B]) * 1e6:.1f} µs between two nodes."
    )


def most_gap_s(card: Peak, config: DecoderConfig) -> float:
    """Return how long it may take from a node to the next one for the bar to be met."""
    made = step(card, config, is_fused=True)
    others_s = made.trips_s + made.moving_s
    allowed_s = made.share * (made.gaps_s + others_s) / BAR_STEP
    return (allowed_s - others_s) / made.nodes


def _fits(config: DecoderConfig, card: Peak) -> bool:
    weights = sum(k.runs * k.moved_bytes for k in kernels_of(config, sequences=1, tokens=1))
    return weights < card.memory_bytes * 0.9


def _step_row(name: str, card: Peak, *, is_fused: bool) -> Iterator[str]:
    config = MODELS[name]
    made = step(card, config, is_fused=is_fused)
    is_barred = config.hidden_size >= 2_560 and made.share < BAR_STEP
    yield f"{name}, {card.name}"
    yield f"{LAYERS_OWN}" if is_fused else f"{LAYERS_APART}, each apart"
    yield str(made.nodes)
    yield f"{made.gaps_s * 1e3:.2f}"
    yield f"{made.trips_s * 1e3:.2f}"
    yield f"{made.moving_s * 1e3:.2f}"
    yield f"{made.share:.0%}{', below the bar' if is_barred else ''}"


def _assumed() -> str:
    rows = [
        [
            "card",
            "processors",
            "clock",
            "memory under load",
            "attention's tile",
            "instructions a warp",
            "cycles of a tile, 1 and 2 programs",
            "library",
        ]
    ]
    for card in CARDS:
        pace, loop = PACES[card.name], LOOPS[card.capability, "bfloat16"]
        rows.append(
            [
                card.name,
                str(pace.processors),
                f"{pace.clock_hz / 1e9:.2f} GHz",
                f"{pace.latency_s * 1e9:.0f} ns",
                f"{loop.tile} tokens",
                str(loop.instructions),
                f"{loop.cycles[0]:,}, {loop.cycles[1]:,}",
                f"{pace.library_linears:.0%}",
            ]
        )
    return (
        f"Assumed: {MEASURED:.0%} of the published bandwidth can be measured,"
        f" {GAP_S * 1e6:.1f} µs between two nodes, {TRIP_S * 1e6:.1f} µs to memory and back,"
        f" a draw reads its logits {DRAW_PASSES} times at {PROCESSOR_BYTES} bytes a cycle,"
        f" matrices of one row are read at {OWN_LINEARS:.0%} of the bandwidth by our kernel and by"
        f" the library at what the table says.\n\n{table(rows)}"
    )


def main() -> int:
    """Print the tables, or write them."""
    return print_or_write(tables(), MARKS, title=__doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
