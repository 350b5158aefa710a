"""A model, not a measurement: what each kernel of a step moves and computes, over published peaks.

    python benchmarks/gpu_model.py [--write]

For every kernel of a decode step the bytes that have to be moved and the operations that have to be
done are counted; the longer of the two at the card's published peak rates is the least time it can
take, and their sum bounds tokens a second from above. No card reaches it: gpu_check.py measures the
share. `--write` brings the tables into docs/gpu.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_check_parts.shapes import MODELS, QWEN3_8B
from localpaged.config import Settings
from localpaged.decoder_config import DecoderConfig
from localpaged.devices import Device
from localpaged.errors import NoRoom
from localpaged.fitting.fit import SizedModel, fit_of
from localpaged.fitting.room import Room
from localpaged.models.opened_model import bytes_in_form
from localpaged.models.weight_forms import DENSE, Asked

DOCUMENT = Path(__file__).parents[1] / "docs" / "gpu.md"
MARKS = ("<!-- model: begin -->", "<!-- model: end -->")
"""What the tables stand between in the document."""

ELEMENT_BYTES = 2
"""Activations are bfloat16."""

WEIGHT_BITS = {"bfloat16": 16.0, "int8": 8.5, "int4": 5.0}
"""Bits of a weight with its share of what a group of 32 has in common."""

SCALE_BYTES = 4
KV_FORMATS = {"bfloat16": (2, 0), "int8": (1, SCALE_BYTES)}
"""Bytes of a number, and of the scale that a head's numbers share."""

SEQUENCES = (1, 8, 32, 256)
FEW_SEQUENCES = (1, 8, 32)
TOKENS = 1_000
"""Tokens that each sequence has when it decodes."""

TAKEN_BYTES = 1 << 30
"""What a desktop and the driver have of a card."""

HOST_BYTES = 32 << 30


@dataclass(frozen=True)
class Peak:
    """A card's published rates; `source` says who published them.

    `operations_per_s` are those of its tensor cores on dense bfloat16 matrices, summed in float32.
    """

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    bytes_per_s: float
    operations_per_s: float
    source: str


CARDS = (
    Peak(
        "RTX 4060",
        (8, 9),
        8 << 30,
        272e9,
        30.2e12,
        "GeForce RTX 4060 product page: 272 GB/s, 242 AI TOPS (sparse fp8), an eighth of it here",
    ),
    Peak(
        "RTX 4090",
        (8, 9),
        24 << 30,
        1_008e9,
        165.2e12,
        "NVIDIA Ada GPU Architecture whitepaper, table of the RTX 4090",
    ),
    Peak(
        "RTX 5090",
        (12, 0),
        32 << 30,
        1_792e9,
        209.5e12,
        "NVIDIA RTX Blackwell GPU Architecture whitepaper, table of the RTX 5090",
    ),
    Peak(
        "H200 SXM",
        (9, 0),
        141_000_000_000,
        4_800e9,
        989e12,
        "NVIDIA H200 Tensor Core GPU datasheet; half of what it tells with sparsity",
    ),
)


@dataclass(frozen=True)
class Kernel:
    """A kernel of a step: how often it runs, what one run moves and computes at least."""

    name: str
    runs: int
    moved_bytes: int
    operations: int

    def least_s(self, card: Peak) -> float:
        """Return the least seconds of all its runs at the card's peaks."""
        return self.runs * max(
            self.moved_bytes / card.bytes_per_s, self.operations / card.operations_per_s
        )

    def is_bound_by_memory(self, card: Peak) -> bool:
        """Whether moving takes longer than computing."""
        return self.moved_bytes / card.bytes_per_s >= self.operations / card.operations_per_s


def kernels_of(
    config: DecoderConfig,
    *,
    sequences: int,
    tokens: int,
    kv_format: str = "bfloat16",
    weights: str = "bfloat16",
) -> Iterator[Kernel]:
    """Yield the kernels of a step that decodes one token for each of the sequences."""
    layers, hidden, dim = config.num_layers, config.hidden_size, config.head_dim
    queries, qkv = config.num_heads * dim, config.qkv_rows
    kv_bytes, scale_bytes = KV_FORMATS[kv_format]
    row_bytes = 2 * config.num_kv_heads * (dim * kv_bytes + scale_bytes)

    def linear(name: str, runs: int, width: int, rows: int, form: str = weights) -> Kernel:
        packed = int(width * rows * WEIGHT_BITS[form] / 8)
        moved = packed + sequences * (width + rows) * ELEMENT_BYTES
        return Kernel(name, runs, moved, 2 * sequences * width * rows)

    def small(name: str, runs: int, numbers: int) -> Kernel:
        # Vectors: what is computed for a number is nothing beside moving it.
        return Kernel(name, runs, sequences * numbers * ELEMENT_BYTES, sequences * numbers)

    yield linear("linear: queries, keys, values", layers, hidden, qkv)
    yield small("norm, rotation and write", layers, 2 * qkv)
    yield Kernel(
        "paged attention",
        layers,
        sequences * (tokens * row_bytes + 2 * queries * ELEMENT_BYTES),
        4 * sequences * tokens * queries,
    )
    yield linear("linear: output of attention", layers, queries, hidden)
    yield small("norm and residual", 2 * layers, 4 * hidden)
    yield linear("linear: gate and up", layers, hidden, 2 * config.intermediate_size)
    yield small("gate", layers, 3 * config.intermediate_size)
    yield linear("linear: down", layers, config.intermediate_size, hidden)
    of_head = "int8" if weights == "int4" else weights
    yield linear("linear: head", 1, hidden, config.vocab_size, of_head)
    # Logits are written in float32 and read by the draw.
    yield Kernel("draw", 1, sequences * config.vocab_size * 12, 4 * sequences * config.vocab_size)


def bound_tokens_per_s(
    config: DecoderConfig,
    card: Peak,
    *,
    sequences: int,
    kv_format: str = "bfloat16",
    weights: str = "bfloat16",
) -> float | None:
    """Return tokens a second that nothing can exceed; None where weights and KV do not fit."""
    step = list(
        kernels_of(config, sequences=sequences, tokens=TOKENS, kv_format=kv_format, weights=weights)
    )
    kv_bytes, scale_bytes = KV_FORMATS[kv_format]
    held = sequences * TOKENS * config.kv_bytes_per_token(kv_bytes, scale_bytes=scale_bytes)
    form: Asked = DENSE if weights == "bfloat16" else "int8" if weights == "int8" else "int4"
    if bytes_in_form(config, (), ELEMENT_BYTES, form) + held > card.memory_bytes - TAKEN_BYTES:
        return None
    return sequences / sum(kernel.least_s(card) for kernel in step)


def longest_context(
    name: str, card: Peak, *, kv_format: str, weights: str = "bfloat16"
) -> int | None:
    """Return the longest context by the program's own memory plan; None where nothing fits.

    It may be longer than the model was trained for: what is told is the room.
    """
    settings = Settings(model=name, kv_dtype=kv_format, dtype=weights)
    config = replace(MODELS[name], context_length=4_000_000)
    room = _room(card)
    low, high = 0, 4_000_000
    while high - low > 1_024:
        tokens = (low + high) // 2
        tried = SizedModel(name, replace(config, context_length=tokens), 0)
        try:
            fit = fit_of(tried, replace(settings, context_tokens=tokens), room)
            fits = fit.fits and fit.engine.context_length >= tokens
        except NoRoom:
            fits = False
        low, high = (tokens, high) if fits else (low, tokens)
    return low // 1_024 * 1_024 or None


def _room(card: Peak) -> Room:
    free = card.memory_bytes - TAKEN_BYTES
    device = Device("cuda", 0, card.name, card.capability, card.memory_bytes, free)
    return Room(device, card.memory_bytes, free, HOST_BYTES, HOST_BYTES)


def tables() -> str:
    """Return all tables as Markdown."""
    parts = [_kernel_table(sequences) for sequences in (1, 32)]
    return "\n\n".join([*parts, _speed_table(), _packed_table(), _context_table(), _sources()])


def _kernel_table(sequences: int) -> str:
    title = f"{sequences} sequence{'s' * (sequences > 1)} of {TOKENS:,} tokens"
    rows = [
        ["kernel", "runs", "MB", "GFLOP", *(f"{card.name}, µs" for card in CARDS)],
    ]
    step = list(kernels_of(MODELS[QWEN3_8B], sequences=sequences, tokens=TOKENS))
    rows += [
        [
            kernel.name,
            str(kernel.runs),
            f"{kernel.runs * kernel.moved_bytes / 1e6:,.1f}",
            f"{kernel.runs * kernel.operations / 1e9:,.2f}",
            *(_least(kernel, card) for card in CARDS),
        ]
        for kernel in step
    ]
    totals = [sum(kernel.least_s(card) for kernel in step) * 1e6 for card in CARDS]
    moved = sum(kernel.runs * kernel.moved_bytes for kernel in step) / 1e6
    done = sum(kernel.runs * kernel.operations for kernel in step) / 1e9
    rows.append(["all", "", f"{moved:,.1f}", f"{done:,.2f}", *(f"{t:,.0f}" for t in totals)])
    return f"A step of {QWEN3_8B} in bfloat16, {title} (c: bound by computing):\n\n{table(rows)}"


def _least(kernel: Kernel, card: Peak) -> str:
    mark = "" if kernel.is_bound_by_memory(card) else " c"
    return f"{kernel.least_s(card) * 1e6:,.0f}{mark}"


def _speed_table() -> str:
    rows = [["model, KV", "sequences", *(card.name for card in CARDS)]]
    for name, config in MODELS.items():
        for kv_format in KV_FORMATS:
            for sequences in SEQUENCES:
                bounds = [
                    bound_tokens_per_s(config, card, sequences=sequences, kv_format=kv_format)
                    for card in CARDS
                ]
                told = ["does not fit" if b is None else f"{b:,.0f}" for b in bounds]
                rows.append([f"{name}, {kv_format}", str(sequences), *told])
    return (
        f"Tokens a second that cannot be exceeded, weights in bfloat16, {TOKENS:,} tokens a"
        f" sequence:\n\n{table(rows)}"
    )


def _packed_table() -> str:
    rows = [["model, weights", "sequences", *(card.name for card in CARDS)]]
    for name, config in MODELS.items():
        for weights in ("int8", "int4"):
            for sequences in FEW_SEQUENCES:
                bounds = [
                    bound_tokens_per_s(config, card, sequences=sequences, weights=weights)
                    for card in CARDS
                ]
                told = ["does not fit" if b is None else f"{b:,.0f}" for b in bounds]
                rows.append([f"{name}, {weights}", str(sequences), *told])
    return (
        "The same with weights in 8 bits and in 4 (the head in 8), KV in bfloat16:"
        f"\n\n{table(rows)}"
    )


def _context_table() -> str:
    rows = [["model, weights, KV", *(card.name for card in CARDS)]]
    for name in MODELS:
        for weights in WEIGHT_BITS:
            for kv_format in KV_FORMATS:
                longest = [
                    longest_context(name, card, kv_format=kv_format, weights=weights)
                    for card in CARDS
                ]
                told = ["does not fit" if tokens is None else f"{tokens:,}" for tokens in longest]
                rows.append([f"{name}, {weights}, {kv_format}", *told])
    return (
        "The longest context for which the program's memory plan has room,"
        f" {TAKEN_BYTES >> 30} GiB of the card taken by others:\n\n{table(rows)}"
    )


def _sources() -> str:
    rows = [["card", "memory", "bandwidth", "bfloat16, dense", "published in"]]
    for card in CARDS:
        gb = card.memory_bytes / 1e9 if card.memory_bytes > 1e11 else card.memory_bytes / 2**30
        rows.append(
            [
                card.name,
                f"{gb:.0f} GB",
                f"{card.bytes_per_s / 1e9:,.0f} GB/s",
                f"{card.operations_per_s / 1e12:.1f} TFLOP/s",
                card.source,
            ]
        )
    return f"Peak rates:\n\n{table(rows)}"


def table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def written_in(document: str, text: str, marks: tuple[str, str] = MARKS) -> str:
    """Return the document with tables between its marks; raises ValueError where there are none."""
    begin, end = marks
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"{DOCUMENT} has no place for the tables of {begin}")
    return pattern.sub(lambda found: f"{begin}\n\n{text}\n\n{end}", document)


def print_or_write(text: str, marks: tuple[str, str], *, title: str) -> int:
    """Do what the command line says: print tables, or write them between their marks."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--write", action="store_true", help="write them into docs/gpu.md")
    if parser.parse_args().write:
        DOCUMENT.write_text(written_in(DOCUMENT.read_text(), text, marks))
        return 0
    print("A MODEL, NOT A MEASUREMENT\n\n" + text)
    return 0


def main() -> int:
    """Print the tables, or write them."""
    return print_or_write(tables(), MARKS, title=__doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
