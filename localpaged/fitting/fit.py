"""Fit: what a model takes with some settings where it would be computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from localpaged.config import Settings
from localpaged.decoder_config import DecoderConfig
from localpaged.engine.params import BLOCK_SIZE_TOKENS, EngineConfig
from localpaged.errors import NoRoom
from localpaged.fitting.formats import NumberFormats, choose_formats
from localpaged.fitting.pool import Steps, blocks_for, size_pool, smallest_context, steps_on
from localpaged.fitting.room import Room
from localpaged.memory_plan import (
    PINNED_ROUNDING_BYTES,
    MemoryPlan,
    card_reserve_bytes,
    card_working_bytes,
    eight_bit_bytes,
    graph_bytes,
    grouped_bytes,
    packed_working_bytes,
    packing_bytes,
    processor_working_bytes,
    rounding_bytes,
)
from localpaged.models.opened_model import Types, bytes_in_form, file_form
from localpaged.models.weight_forms import DENSE, Asked, Form


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

    @property
    def file_form(self) -> Form:
        """The form that most of its layers' matrices have where they stay as its file has them."""

    def weight_bytes(self, element_bytes: int, weights: Asked = DENSE) -> int:
        """Bytes of its weights in a form, at so many for each number of what is dense."""


@dataclass(frozen=True, slots=True)
class SizedModel:
    """A ModelSize of a model that is not open."""

    name: str
    config: DecoderConfig
    file_bytes: int
    types: Types = ()

    @property
    def file_form(self) -> Form:
        """See ModelSize; dense where the types of its file's tensors are not known."""
        return file_form(self.config, self.types)

    def weight_bytes(self, element_bytes: int, weights: Asked = DENSE) -> int:
        """See ModelSize."""
        return bytes_in_form(self.config, self.types, element_bytes, weights)


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
    """Return what a model would take: with wide steps, or with narrow ones where those fit alone.

    Raises ConfigError for formats and contexts that cannot be, and NoRoom when KV has no room.
    """
    *wider, narrowest = steps_on(opened.config, room)
    for steps in wider:
        try:
            fit = _fit_with(opened, settings, room, steps)
        except NoRoom:
            continue
        if fit.fits:
            return fit
    return _fit_with(opened, settings, room, narrowest)


def _fit_with(opened: ModelSize, settings: Settings, room: Room, steps: Steps) -> Fit:
    from localpaged.engine.kv_storage import block_bytes

    config = opened.config
    formats = choose_formats(config, settings, room, file_form=opened.file_form)
    a_block = block_bytes(config, formats.kv, block_size=BLOCK_SIZE_TOKENS)
    taken = fixed_plan(opened, formats, room, steps)
    engine = size_pool(
        config,
        settings,
        block_bytes=a_block,
        room=room,
        taken_bytes=taken.total_bytes,
        steps=steps,
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

    formats = choose_formats(opened.config, settings, room, file_form=opened.file_form)
    tokens = smallest_context(opened.config, settings, room.device)
    a_block = block_bytes(opened.config, formats.kv, block_size=BLOCK_SIZE_TOKENS)
    taken = fixed_plan(opened, formats, room, steps_on(opened.config, room)[-1])
    return replace(taken, kv_bytes=blocks_for(tokens) * a_block)


def fixed_plan(opened: ModelSize, formats: NumberFormats, room: Room, steps: Steps) -> MemoryPlan:
    """Return what a model takes besides its KV."""
    config, step_tokens = opened.config, steps.step_tokens
    weights = opened.weight_bytes(formats.projections.itemsize, formats.weights)
    if room.device.is_cuda:
        running = steps.max_running
        packed = packed_working_bytes(config) if formats.weights != DENSE else 0
        return MemoryPlan(
            weights,
            0,
            card_working_bytes(config, step_tokens=step_tokens, max_running=running) + packed,
            graph_bytes(config, max_running=running),
            card_reserve_bytes(config),
        )
    if formats.has_eight_bit:
        weights = eight_bit_bytes(config) + rounding_bytes(config)
    elif formats.has_groups:
        norms_are_wide = opened.weight_bytes(4, formats.weights)
        weights = grouped_bytes(config, norms_are_wide) + packing_bytes(config)
    elif formats.has_four_bit:
        # they are the file's own numbers; the dense ones are counted at their widest
        weights += opened.file_bytes
    return MemoryPlan(weights, 0, processor_working_bytes(config, step_tokens=step_tokens))
