"""Perplexity of a model on a fixed text, for each number format of the KV cache.

    python benchmarks/perplexity.py [--model NAME] [--text FILE] [--only-packed]

The text is read as the engine reads a long prompt: in chunks, each of which attends to all
earlier ones through the paged cache. Weights and activations stay float32, so the cache alone
makes the difference; the next lines repeat it in bfloat16 and in 8 bits, as the program runs. The
last ones are of weights in 8 and 4 bits as on a card, made wide again, all else in float32. What a
file has in groups of 4 bits is not rounded twice, so the columns of each matrix are also dealt out
to groups anew, in which nothing is on a grid: that is what weights of 16 bits lose.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import torch

from localpaged.engine.batch import build_batch
from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS
from localpaged.engine.eight_bit import can_be_eight_bit, to_eight_bit
from localpaged.engine.kv_storage import KVStorage, block_bytes
from localpaged.engine.native import NativeDecoder
from localpaged.engine.params import BLOCK_SIZE_TOKENS, SamplingParams
from localpaged.engine.step_plan import PlannedRow, StepPlan
from localpaged.engine.team_decoder import TeamDecoder
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import OpenedModel
from localpaged.models.quantise import rounded
from localpaged.models.tensor_layout import tensor_layout
from localpaged.models.weight_forms import DENSE, GROUP, INT4, INT8, Asked, forms_of
from localpaged.models.weights import load_state
from localpaged_kernels.quantised_linear.reference import QuantisedMatrix, dequantise

TEXT = Path(__file__).parent.parent / "tests" / "data" / "prose.txt"
CHUNK_TOKENS = 256


def perplexity(
    decoder: NativeDecoder | TeamDecoder, token_ids: list[int], *, kv_dtype: torch.dtype
) -> float:
    """Return exp of the mean negative log likelihood of every token after the first."""
    num_blocks = -(-len(token_ids) // BLOCK_SIZE_TOKENS)
    kv = KVStorage(
        decoder.config, num_blocks=num_blocks, block_size=BLOCK_SIZE_TOKENS, dtype=kv_dtype
    )
    table = tuple(range(NUM_RESERVED_BLOCKS, NUM_RESERVED_BLOCKS + num_blocks))
    total = 0.0
    with torch.inference_mode():
        for start in range(0, len(token_ids) - 1, CHUNK_TOKENS):
            end = min(start + CHUNK_TOKENS, len(token_ids) - 1)
            row = PlannedRow(
                sequence_id=0,
                request_id="text",
                token_ids=tuple(token_ids[start:end]),
                start=start,
                block_table=table[: -(-end // BLOCK_SIZE_TOKENS)],
                sampling=SamplingParams(),
            )
            batch = build_batch(StepPlan((row,), ()), block_size=BLOCK_SIZE_TOKENS)
            logits = decoder.logits(decoder.forward(batch, kv))
            following = torch.tensor(token_ids[start + 1 : end + 1])
            total += float(torch.nn.functional.cross_entropy(logits, following, reduction="sum"))
    return math.exp(total / (len(token_ids) - 1))


def main() -> None:
    """Print one line for each format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--only-packed", action="store_true", help="the last lines alone")
    arguments = parser.parse_args()
    opened = open_model(arguments.model)
    token_ids = opened.chat.encode(arguments.text.read_text(encoding="utf-8"))
    print(f"{opened.name}, {len(token_ids):,} tokens, read in chunks of {CHUNK_TOKENS}\n")
    if not arguments.only_packed:
        _tell_formats(opened, token_ids)
    print("\n| weights | bytes | perplexity |")
    print("|---|---|---|")
    wide = load_state(opened, dtype=torch.float32)
    for weights, is_dealt in (("file", False), *product(("int8", "int4"), (False, True))):
        state = as_packed(opened, wide, weights, is_dealt=is_dealt)
        decoder = NativeDecoder(opened.config, state)
        value = perplexity(decoder, token_ids, kv_dtype=torch.float32)
        name = f"{weights}{', columns dealt out anew' * is_dealt}"
        print(f"| {name} | {opened.weight_bytes(2, weights):,} | {value:.4f} |", flush=True)


def as_packed(
    opened: OpenedModel, wide: Mapping[str, torch.Tensor], weights: Asked, *, is_dealt: bool
) -> dict[str, torch.Tensor]:
    """Return a float32 state dict of what matrices in 8 or 4 bits mean."""
    if not is_dealt:
        return _meant(load_state(opened, dtype=torch.float32, weights=weights))
    state = dict(wide)
    layout = tensor_layout(opened.config)
    for name, form in forms_of(layout, {}, weights).items():
        if form == DENSE:
            continue
        order = torch.randperm(wide[name].shape[1], generator=torch.Generator().manual_seed(0))
        numbers, scales = rounded(wide[name][:, order], form)
        matrix = QuantisedMatrix(numbers, scales, len(order))
        state[name] = torch.empty_like(wide[name])
        state[name][:, order] = dequantise(matrix)
    return state


def _meant(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    made = {}
    for name, tensor in state.items():
        stem, _, kind = name.rpartition(".")
        if kind in (INT8, INT4):
            scales = state[f"{name}_scales"]
            matrix = QuantisedMatrix(tensor, scales, len(scales) * GROUP)
            made[f"{stem}.weight"] = dequantise(matrix)
        elif not kind.endswith("_scales"):
            made[name] = tensor
    return made


def _tell_formats(opened: OpenedModel, token_ids: list[int]) -> None:
    print("| computed in | KV cache | bytes a token | perplexity |")
    print("|---|---|---|---|")
    for dtype, kv_dtypes in (
        (torch.float32, (torch.float32, torch.bfloat16, torch.int8)),
        (torch.bfloat16, (torch.bfloat16, torch.int8)),
    ):
        decoder = NativeDecoder(opened.config, load_state(opened, dtype=dtype))
        for kv_dtype in kv_dtypes:
            value = perplexity(decoder, token_ids, kv_dtype=kv_dtype)
            num_bytes = block_bytes(opened.config, kv_dtype, block_size=1)
            names = [str(d).removeprefix("torch.") for d in (dtype, kv_dtype)]
            print(f"| {names[0]} | {names[1]} | {num_bytes:,} | {value:.4f} |", flush=True)
    if can_be_eight_bit(opened.config):
        state = to_eight_bit(opened.config, load_state(opened, dtype=torch.bfloat16))
        team = TeamDecoder(opened.config, state, threads=torch.get_num_threads())
        for kv_dtype in (torch.bfloat16, torch.int8):
            value = perplexity(team, token_ids, kv_dtype=kv_dtype)
            num_bytes = block_bytes(opened.config, kv_dtype, block_size=1)
            name = str(kv_dtype).removeprefix("torch.")
            print(f"| int8 | {name} | {num_bytes:,} | {value:.4f} |", flush=True)


if __name__ == "__main__":
    main()
