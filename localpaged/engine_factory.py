"""Turns an opened model and settings into a running core; on the engine's thread."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from localpaged.config import Settings
from localpaged.cycles import collecting_none
from localpaged.devices import Device
from localpaged.engine.events import LoadEvent, ReadyEvent
from localpaged.fitting.formats import NumberFormats
from localpaged.fitting.nearest import require_fit
from localpaged.fitting.room import Room, room_on
from localpaged.freed_memory import give_back
from localpaged.kv_keeping import KVKeeping
from localpaged.load_devices import CardBytes, Machine, ThisMachine, load_parts
from localpaged.memory_plan import MEMORY_NEEDED, MemoryPlan
from localpaged.models.opened_model import OpenedModel
from localpaged.thread_waiting import wait_briefly

if TYPE_CHECKING:
    from localpaged.engine.core import EngineCore
    from localpaged.engine.kv_storage import KVStorage

OnLoad = Callable[[LoadEvent], None]

log = logging.getLogger(__name__)


def load_core(
    open_model: Callable[[], OpenedModel],
    settings: Settings,
    on_load: OnLoad,
    *,
    is_deleted: Callable[[str], bool] = lambda chat_id: False,
    machine: Machine | None = None,
) -> tuple[EngineCore, ReadyEvent]:
    """Load the model that `open_model` returns, telling every stage to `on_load`.

    `is_deleted` tells whether a chat's KV must not be kept in files; on a thread of its own.
    torch is imported before the model is asked for: the two take their time side by side.
    Raises ConfigError for a device that is not there, ModelError, and NoRoom, with the nearest
    setting that fits, when memory is too small.
    """
    started_s = time.perf_counter()
    on_load(LoadEvent("Starting torch"))
    wait_briefly()
    with collecting_none():
        import torch

        from localpaged.engine.answer import Vocabulary

    torch.set_num_threads(settings.threads or _torch_threads())
    machine = machine or ThisMachine()
    device = _choose(machine, settings, on_load)
    layer = machine.open(device)
    opened = open_model()
    if layer is not None:
        give_back()  # what steps of other models left is to be told as free
    free_bytes = None if layer is None else layer.free_bytes()
    room = room_on(device, free_bytes=free_bytes)
    fit = require_fit(
        opened,
        settings,
        room,
        tell=partial(_tell_plan, on_load, room),
    )
    keeping = _keeping(opened, settings, is_deleted)
    parts = load_parts(opened, fit, layer, on_load, weights_disk_bytes=settings.weights_disk_bytes)
    give_back()
    core = _core_type(keeping, parts.kv, _computed(fit.formats, device), on_load)(
        parts.engine,
        parts.runner,
        Vocabulary(
            opened.chat.token_bytes,
            opened.chat.eos_ids,
            strips_first_space=opened.chat.strips_first_space,
        ),
        model_name=opened.name,
        device=device.label,
        dtype=fit.formats.name,
        block_bytes=fit.block_bytes,
        weight_bytes=parts.weight_bytes,
        device_bytes=None if layer is None else CardBytes(layer, device),
    )
    ready = ReadyEvent(
        model_name=opened.name,
        device=device.label,
        dtype=fit.formats.name,
        context_length=parts.engine.context_length,
        load_s=time.perf_counter() - started_s,
    )
    return core, ready


@cache
def _torch_threads() -> int:
    """Return how many threads torch took by itself; steps of another model may have changed it."""
    import torch

    return int(torch.get_num_threads())


def _choose(machine: Machine, settings: Settings, on_load: OnLoad) -> Device:
    device = machine.choose(settings)
    if device.is_cuda:
        on_load(LoadEvent(f"Opening {device.title}"))
    elif machine.expects_card and settings.device != device.name:
        log.warning("Models are computed on the processor: %s", device.why)
    return device


def _tell_plan(on_load: OnLoad, room: Room, plan: MemoryPlan) -> None:
    """Tell what loading takes before anything is allocated or refused."""
    free_bytes = room.free_bytes
    if room.device.is_cuda:
        for purpose, num_bytes in plan.parts:
            on_load(LoadEvent(f"Memory {purpose} of what is free", num_bytes, free_bytes, "bytes"))
    on_load(LoadEvent(MEMORY_NEEDED, plan.total_bytes, free_bytes, "bytes"))


def _computed(formats: NumberFormats, device: Device) -> str:
    """Return in which numbers is computed and, unless it is the processor, where."""
    return f"{formats} on {device.card}" if device.is_cuda else str(formats)


def _keeping(
    opened: OpenedModel, settings: Settings, is_deleted: Callable[[str], bool]
) -> KVKeeping | None:
    budget_bytes = settings.kv_disk_bytes
    if not budget_bytes:
        return None
    return KVKeeping(opened, budget_bytes=budget_bytes, is_deleted=is_deleted)


def _core_type(
    keeping: KVKeeping | None, kv: KVStorage, computed: str, on_load: OnLoad
) -> Callable[..., EngineCore]:
    """Return what makes the core: one whose KV outlives it, where that is wanted and possible."""
    from localpaged.engine.core import EngineCore
    from localpaged.engine.keeping_core import KeepingCore

    if keeping is None:
        return EngineCore
    keeper = keeping.keeper(
        kv,
        compute=computed,
        on_progress=lambda done, total: on_load(
            LoadEvent("Checking weights for KV files", done, total, "bytes")
        ),
    )
    return EngineCore if keeper is None else partial(KeepingCore, store=kv, keeper=keeper)


def give_back_memory() -> None:
    """Return freed memory to the system and to the card; on the engine's thread.

    Without this a model that was unloaded would go on counting as memory in use, and the next one
    would be refused.
    """
    gc.collect()
    give_back()
