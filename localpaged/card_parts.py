"""Pool and runner of a model on a card, whose recorded steps are measured before the pool stays."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from localpaged.engine.events import LoadEvent
from localpaged.engine.params import EngineConfig
from localpaged.fitting.fit import Fit
from localpaged.fitting.pool import blocks_for
from localpaged.freed_memory import give_back
from localpaged.memory_plan import LEFT_BYTES
from localpaged.models.opened_model import OpenedModel

if TYPE_CHECKING:
    import torch

    from localpaged.engine.device import DeviceLayer
    from localpaged.engine.gpu_runner import GpuRunner
    from localpaged.engine.kv_storage import KVStorage

log = logging.getLogger(__name__)

OnLoad = Callable[[LoadEvent], None]


@dataclass(frozen=True, slots=True)
class CardParts:
    """A pool, what runs steps on it, and the engine's sizes that fit both."""

    runner: GpuRunner
    kv: KVStorage
    engine: EngineConfig


def make_card_parts(
    opened: OpenedModel,
    fit: Fit,
    state: Mapping[str, torch.Tensor],
    layer: DeviceLayer,
    on_load: OnLoad,
) -> CardParts:
    """Make the pool of the plan and the runner, compile, and record a step.

    What the first recorded step takes is measured. Where the others would not have room, the pool
    is made anew with fewer blocks; and where it has no block to spare for a full context, fewer
    steps are recorded, which the runner's note tells.
    """
    parts = _made(opened, fit, fit.engine, state, layer, on_load)
    missing_bytes = _missing_bytes(parts.runner, layer)
    if missing_bytes <= 0:
        return parts
    engine = _with_fewer_blocks(fit, missing_bytes)
    if engine != fit.engine:
        del parts  # two pools have no room beside each other
        gc.collect()  # a runner and its recorded steps know each other
        give_back()
        on_load(LoadEvent("Making room for recorded steps", missing_bytes, 0, "bytes"))
        parts = _made(opened, fit, engine, state, layer, on_load)
        missing_bytes = _missing_bytes(parts.runner, layer)
    if missing_bytes > 0:
        a_graph = max(parts.runner.graph_bytes, 1)
        log.warning("%d bytes are missing for recorded steps of %d", missing_bytes, a_graph)
        parts.runner.limit_graphs(parts.runner.most_graphs - -(-missing_bytes // a_graph))
    return parts


def _missing_bytes(runner: GpuRunner, layer: DeviceLayer) -> int:
    """Return what all steps that may still be recorded take more than there is."""
    still = runner.most_graphs - runner.num_graphs
    return still * runner.graph_bytes + LEFT_BYTES * bool(still) - layer.free_bytes()


def _with_fewer_blocks(fit: Fit, missing_bytes: int) -> EngineConfig:
    """Return the sizes with so much less KV, as far as a full context still has room."""
    engine = fit.engine
    least = blocks_for(engine.context_length)
    num_blocks = max(engine.num_blocks - -(-missing_bytes // fit.block_bytes), least)
    return replace(engine, num_blocks=min(num_blocks, engine.num_blocks))


def _made(
    opened: OpenedModel,
    fit: Fit,
    engine: EngineConfig,
    state: Mapping[str, torch.Tensor],
    layer: DeviceLayer,
    on_load: OnLoad,
) -> CardParts:
    from localpaged.engine.gpu_runner import GpuRunner
    from localpaged.engine.kv_storage import KVStorage
    from localpaged.engine.native import NativeDecoder
    from localpaged.engine.operators import triton_operators

    operators = triton_operators()
    on_load(LoadEvent("Allocating KV blocks", 0, engine.num_blocks, "blocks"))
    kv = KVStorage(
        opened.config,
        num_blocks=engine.num_blocks,
        block_size=engine.block_size,
        dtype=fit.formats.kv,
        host_blocks=engine.host_blocks,
        device=layer.torch_device,
        operators=operators,
    )
    # tables of angles are made for this context alone
    config = replace(opened.config, context_length=engine.context_length)
    runner = GpuRunner(
        NativeDecoder(config, state, operators=operators),
        kv,
        layer,
        context_blocks=blocks_for(engine.context_length),
        max_rows=engine.max_running,
        vocab_size=opened.config.vocab_size,
        padding_ids=opened.chat.padding_ids,
        step_tokens=engine.step_tokens,
    )
    runner.warm_up(
        lambda done, total: on_load(LoadEvent("Compiling kernels", done, total, "steps"))
    )
    return CardParts(runner, kv, engine)
