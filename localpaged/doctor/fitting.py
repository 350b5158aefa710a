"""Whether a model fits into the free memory, and the nearest setting with which it would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import psutil

from localpaged.config import MIN_CONTEXT_TOKENS, Settings
from localpaged.engine.params import BLOCK_SIZE_TOKENS, EngineConfig
from localpaged.engine_factory import choose_formats, plan_memory, size_pool
from localpaged.errors import NoRoom
from localpaged.memory_plan import MemoryPlan
from localpaged.models.opened_model import OpenedModel

USEFUL_CONTEXT_TOKENS = 2_048
"""Other number formats are tried before a context gets shorter than this."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What a model would take with some settings."""

    plan: MemoryPlan
    engine: EngineConfig
    block_bytes: int
    free_bytes: int

    @property
    def fits(self) -> bool:
        """Whether it would be loaded."""
        return self.plan.total_bytes <= self.free_bytes


def fit_of(opened: OpenedModel, settings: Settings) -> Fit:
    """Return what a model would take. Raises ConfigError, and NoRoom when KV has no room at all."""
    from localpaged.engine.kv_storage import block_bytes

    formats = choose_formats(opened, settings)
    bytes_a_block = block_bytes(opened.config, formats.kv, block_size=BLOCK_SIZE_TOKENS)
    engine = size_pool(opened.config, settings, block_bytes=bytes_a_block)
    plan = plan_memory(opened, formats, engine, block_bytes=bytes_a_block)
    return Fit(plan, engine, bytes_a_block, psutil.virtual_memory().available)


def nearest_fit(opened: OpenedModel, settings: Settings) -> str:
    """Return the options with which the model fits, changing as little as can be; empty if none."""
    asked = settings.context_tokens or opened.config.context_length
    largest = min(asked, opened.config.context_length)
    floors = (min(USEFUL_CONTEXT_TOKENS, largest), min(MIN_CONTEXT_TOKENS, largest))
    for floor in dict.fromkeys(floors):
        for options, changes in _changes(settings):
            tokens = _longest_context(opened, replace(settings, **changes), floor, largest)
            if tokens:
                shorter = f"--context {tokens}" if tokens < largest or not options else ""
                return " ".join(filter(None, (shorter, options)))
    return ""


def _changes(settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """Options that take less memory, from none to all, and what they set."""
    yield "", {}
    if settings.host_memory_bytes:
        yield "no --host-memory", {"host_memory_bytes": 0}
    if settings.kv_memory_bytes is not None:
        given = {"kv_memory_bytes": None, "host_memory_bytes": 0}
        yield "no --kv-memory" + " and no --host-memory" * bool(settings.host_memory_bytes), given
    if settings.kv_dtype != "int8":
        yield "--kv-dtype int8", {"kv_dtype": "int8"}
    if settings.dtype != "bfloat16":
        options = {"dtype": "bfloat16", "kv_dtype": "int8"}
        yield "--dtype bfloat16 --kv-dtype int8", options


def _longest_context(opened: OpenedModel, settings: Settings, floor: int, largest: int) -> int:
    """Return the longest context that fits, in whole blocks, 0 when not even `floor` does."""
    if not _does_fit(opened, settings, floor):
        return 0
    low, high = floor, largest
    if _does_fit(opened, settings, largest):
        return largest
    while high - low > BLOCK_SIZE_TOKENS:
        middle = (low + high) // 2
        low, high = (middle, high) if _does_fit(opened, settings, middle) else (low, middle)
    return max(floor, low // BLOCK_SIZE_TOKENS * BLOCK_SIZE_TOKENS)


def _does_fit(opened: OpenedModel, settings: Settings, context_tokens: int) -> bool:
    try:
        return fit_of(opened, replace(settings, context_tokens=context_tokens)).fits
    except NoRoom:
        return False
