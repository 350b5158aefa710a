"""Cores that run a real decoder, loaded from files as the program loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from localpaged.engine.answer import Vocabulary
from localpaged.engine.core import EngineCore
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.native import NativeDecoder
from localpaged.engine.params import EngineConfig
from localpaged.engine.runner import ModelRunner
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state


def load_decoder(path: Path, *, dtype: torch.dtype = torch.float32) -> tuple[NativeDecoder, Any]:
    """Return the native decoder of the model at `path` and the opened model."""
    opened = open_model(path)
    return NativeDecoder(opened.config, load_state(opened, dtype=dtype)), opened


def make_decoder_core(
    decoder: NativeDecoder,
    *,
    num_blocks: int = 256,
    token_bytes: tuple[bytes, ...] = (),
    eos_ids: frozenset[int] = frozenset(),
    kv_dtype: torch.dtype = torch.float32,
    **config: Any,
) -> EngineCore:
    """Return a core whose KV memory starts out loud: stale reads show in the tokens."""
    kv = KVStorage(
        decoder.config,
        num_blocks=num_blocks,
        block_size=16,
        dtype=kv_dtype,
        host_blocks=config.get("host_blocks", 0),
    )
    kv.poison()
    return EngineCore(
        EngineConfig(
            num_blocks=num_blocks,
            context_length=min(decoder.config.context_length, num_blocks * 16),
            **config,
        ),
        ModelRunner(decoder, kv),
        Vocabulary(token_bytes or (b"x",) * decoder.config.vocab_size, eos_ids),
    )
