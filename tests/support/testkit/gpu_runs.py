"""Cores whose runner is the GPU's, on a fake device and, where it is Triton's, interpreted."""

from __future__ import annotations

from typing import Any

import torch

from localpaged.engine.gpu_runner import GpuRunner
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.native import NativeDecoder
from testkit.decoders import make_decoder_core
from testkit.engine_runs import EngineCore
from testkit.fake_device import FakeDevice


def make_gpu_core(
    decoder: NativeDecoder,
    device: FakeDevice,
    *,
    has_graphs: bool = True,
    padding_ids: tuple[int, ...] = (),
    **config: Any,
) -> tuple[EngineCore, GpuRunner]:
    """Return a core over the GPU's runner, and that; sizes are small."""
    made: list[GpuRunner] = []
    num_blocks = config.get("num_blocks", 256)
    max_rows = config.setdefault("max_running", 8)

    def make_runner(kv: KVStorage) -> GpuRunner:
        runner = GpuRunner(
            decoder,
            kv,
            device,
            context_blocks=min(decoder.config.context_length // 16, num_blocks),
            max_rows=max_rows,
            vocab_size=decoder.config.vocab_size,
            padding_ids=padding_ids,
            has_graphs=has_graphs,
        )
        made.append(runner)
        return runner

    return make_decoder_core(decoder, make_runner=make_runner, **config), made[0]


def nan_behind_everything(kv: KVStorage) -> None:
    """Fill all blocks but the one that pads reads with what is not a number."""
    for layer in kv.layers:
        layer.numbers[1:] = torch.nan
