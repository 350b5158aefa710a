"""Which model is measured: the largest that a card has room for, with what is measured of it."""

from __future__ import annotations

import gc

from gpu_check_parts.bench import Bench
from gpu_check_parts.entries import Skip
from gpu_check_parts.ours import Sizes, needed_bytes
from gpu_check_parts.shapes import MODELS, TINY
from localpaged.decoder_config import DecoderConfig

TINY_NAME = "a tiny model"


def largest(
    bench: Bench, sizes: Sizes, *, names: tuple[str, ...] = tuple(MODELS)
) -> tuple[str, DecoderConfig] | Skip:
    """Return the first of the models that fits, or why none does; in a rehearsal the tiny one."""
    if bench.is_rehearsal:
        return TINY_NAME, TINY
    lack: Skip | None = None
    for name in names:
        lack = bench.lacks_memory(name, needed_bytes(MODELS[name], sizes))
        if lack is None:
            return name, MODELS[name]
    assert lack is not None
    return lack


def give_back(bench: Bench) -> None:
    """Give the memory of what nobody has any more back to the card."""
    gc.collect()
    if not bench.is_rehearsal:
        import torch

        torch.cuda.empty_cache()
