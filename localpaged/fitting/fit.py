"""Fit: what a model takes with some settings where it would be computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from localpaged.config import Settings
from localpaged.decoder_config import DecoderConfig
from localpaged.engine.params import BLOCK_SIZE_TOKENS, EngineConfig
from localpaged.fitting.formats import NumberFormats, choose_formats
from localpaged.fitting.pool import (
    blocks_for,
    running_on,
    size_pool,
    smallest_context,
    step_tokens_on,
)
from localpaged.fitting.room import Room
from localpaged.memory_plan import (
    PINNED_ROUNDING_BYTES,
    MemoryPlan,
    card_reserve_bytes,
    card_working_bytes,
    eight_bit_bytes,
    graph_bytes,
    processor_working_bytes,
    rounding_bytes,
)


class ModelSize(Protocol):
    """What has to be known of a model; an `OpenedModel`."""

    @property
    def name(self) -> str:
        """How it is called."""

    @property
    def config(self) -> DecoderConfig:
        """Its shape."""

    @property
    def file_bytes(self) -> int:
        """Bytes of its weights on disk."""

    def weight_bytes(self, element_bytes: int) -> int:
        """Bytes of its weights at so many for each number."""


@dataclass(frozen=True, slots=True)
class SizedModel:
    """A ModelSize of a model that is not open."""

    name: str
    config: DecoderConfig
    file_bytes: int

    def weight_bytes(self, element_bytes: int) -> int:
        """See ModelSize."""
        from localpaged.models.opened_model import count_parameters

        return count_parameters(self.config) * element_bytes


@dataclass(frozen=True, slots=True)
class Fit:
    """What a model takes with some settings in a room."""

    room: Room
    formats: NumberFormats
    engine: EngineConfig
    block_bytes: int
    plan: MemoryPlan

    @property
    def fits(self) -> bool:
        """Whether it would be loaded."""
        return self.room.holds(self.plan)


def fit_of(opened: ModelSize, settings: Settings, room: Room) -> Fit:
    """Return what a model would take.

    Raises ConfigError for formats and contexts that cannot be, and NoRoom when KV has no room.
    """
    from localpaged.engine.kv_storage import block_bytes

    config = opened.config
    formats = choose_formats(config, settings, room)
    a_block = block_bytes(config, formats.kv, block_size=BLOCK_SIZE_TOKENS)
    taken = fixed_plan(opened, formats, room)
    engine = size_pool(
        config, settings, block_bytes=a_block, room=room, taken_bytes=taken.total_bytes
    )
    blocks = engine.initial_blocks or engine.num_blocks
    host_bytes = engine.host_blocks * a_block
    plan = MemoryPlan(
        taken.weight_bytes,
        # beside the processor the pool's host memory is memory like any other
        blocks * a_block + (0 if room.device.is_cuda else host_bytes),
        taken.working_bytes,
        taken.graph_bytes,
        taken.reserve_bytes,
        host_bytes + PINNED_ROUNDING_BYTES if room.device.is_cuda and host_bytes else 0,
    )
    return Fit(room, formats, engine, a_block, plan)


def least_plan(opened: ModelSize, settings: Settings, room: Room) -> MemoryPlan:
    """Return what a model takes with the smallest pool that the settings allow."""
    from localpaged.engine.kv_storage import block_bytes

    formats = choose_formats(opened.config, settings, room)
    tokens = smallest_context(opened.config, settings, room.device)
    a_block = block_bytes(opened.config, formats.kv, block_size=BLOCK_SIZE_TOKENS)
    return replace(fixed_plan(opened, formats, room), kv_bytes=blocks_for(tokens) * a_block)


def fixed_plan(opened: ModelSize, formats: NumberFormats, room: Room) -> MemoryPlan:
    """Return what a model takes besides its KV."""
    config, step_tokens = opened.config, step_tokens_on(room.device)
    weights = opened.weight_bytes(formats.projections.itemsize)
    if room.device.is_cuda:
        max_running = running_on(config, room)
        return MemoryPlan(
            weights,
            0,
            card_working_bytes(config, step_tokens=step_tokens, max_running=max_running),
            graph_bytes(config, max_running=max_running),
            card_reserve_bytes(config),
        )
    if formats.has_eight_bit:
        weights = eight_bit_bytes(config) + rounding_bytes(config)
    elif formats.has_four_bit:
        # they are the file's own numbers; the dense ones are counted at their widest
        weights += opened.file_bytes
    return MemoryPlan(weights, 0, processor_working_bytes(config, step_tokens=step_tokens))
