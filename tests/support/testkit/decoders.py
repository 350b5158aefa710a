"""Cores that run a real decoder, loaded from files as the program loads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from localpaged.engine.answer import Vocabulary
from localpaged.engine.containment import Runner
from localpaged.engine.core import EngineCore
from localpaged.engine.eight_bit import has_team_steps, to_eight_bit
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.native import NativeDecoder
from localpaged.engine.operators import Operators
from localpaged.engine.params import EngineConfig
from localpaged.engine.runner import ModelRunner
from localpaged.engine.team_decoder import TeamDecoder
from localpaged.models.open_model import open_model
from localpaged.models.quantise import rounded
from localpaged.models.weight_forms import Form
from localpaged.models.weights import load_state
from localpaged_kernels.quantised_linear.reference import QuantisedMatrix, dequantise


def load_decoder(
    path: Path, *, dtype: torch.dtype = torch.float32, operators: Operators | None = None
) -> tuple[NativeDecoder, Any]:
    """Return the native decoder of the model at `path` and the opened model."""
    opened = open_model(path)
    state = load_state(opened, dtype=dtype)
    return NativeDecoder(opened.config, state, operators=operators), opened


def load_eight_bit(path: Path, *, threads: int = 2) -> tuple[TeamDecoder, Any]:
    """Return the decoder with its weights rounded to 8 bits, and the opened model."""
    opened = open_model(path)
    state = to_eight_bit(opened.config, load_state(opened, dtype=torch.float32))
    return TeamDecoder(opened.config, state, threads=threads), opened


needs_eight_bit = pytest.mark.skipif(
    not has_team_steps(), reason="no steps are compiled for this processor"
)


def make_decoder_core(
    decoder: NativeDecoder | TeamDecoder,
    *,
    num_blocks: int = 256,
    token_bytes: tuple[bytes, ...] = (),
    eos_ids: frozenset[int] = frozenset(),
    kv_dtype: torch.dtype = torch.float32,
    make_core: Callable[..., EngineCore] | None = None,
    make_runner: Callable[[KVStorage], Runner] | None = None,
    **config: Any,
) -> EngineCore:
    """Return a core whose KV memory starts out loud: stale reads show in the tokens.

    `make_core` is given the KV storage as `store`, too. `make_runner` makes another runner than
    the CPU's.
    """
    kv = KVStorage(
        decoder.config,
        num_blocks=num_blocks,
        block_size=16,
        dtype=kv_dtype,
        host_blocks=config.get("host_blocks", 0),
        operators=decoder.operators,
    )
    kv.poison()
    return (EngineCore if make_core is None else partial(make_core, store=kv))(
        EngineConfig(
            num_blocks=num_blocks,
            context_length=min(decoder.config.context_length, num_blocks * 16),
            **config,
        ),
        ModelRunner(decoder, kv) if make_runner is None else make_runner(kv),
        Vocabulary(token_bytes or (b"x",) * decoder.config.vocab_size, eos_ids),
    )


def in_groups(
    state: dict[str, torch.Tensor], form: Form = "int4"
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return a state dict with its matrices in groups, embeddings and head in 8 bits, and that
    with the same numbers as dense matrices."""
    packed, dense = {}, {}
    for name, tensor in state.items():
        stem = name.removesuffix(".weight")
        if tensor.dim() < 2:
            packed[name] = dense[name] = tensor
            continue
        own: Form = "int8" if stem in ("embed", "head") else form
        numbers, scales = rounded(tensor.float(), own)
        packed |= {f"{stem}.{own}": numbers, f"{stem}.{own}_scales": scales}
        dense[name] = dequantise(QuantisedMatrix(numbers, scales, tensor.shape[1]))
    return packed, dense
