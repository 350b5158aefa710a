"""Turns an opened model and settings into a running core; on the engine's thread."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psutil

from localpaged.config import MIN_CONTEXT_TOKENS, Settings
from localpaged.decoder_config import DecoderConfig
from localpaged.engine.events import LoadEvent, ReadyEvent
from localpaged.engine.params import BLOCK_SIZE_TOKENS, EngineConfig
from localpaged.errors import ConfigError, NoRoom
from localpaged.freed_memory import give_back
from localpaged.kv_keeping import KVKeeping
from localpaged.memory_plan import MemoryPlan, working_bytes
from localpaged.models.opened_model import OpenedModel
from localpaged.thread_waiting import wait_briefly

if TYPE_CHECKING:
    import torch

    from localpaged.engine.core import EngineCore
    from localpaged.engine.kv_storage import KVStorage

MAX_DRAFTS = 8
"""Tokens a sequence may guess in one step; how many are worth it is measured."""

FULL_CHATS = 8
"""How many chats of full context the KV pool may grow to when nobody says how much."""
SLABS_PER_CHAT = 4
DEVICE = "cpu"
"""Where models are computed, by torch's name."""
KV_SHARE_OF_FREE_MEMORY = 0.25
WIDE_SHARE_OF_FREE_MEMORY = 0.25

OnLoad = Callable[[LoadEvent], None]


@dataclass(frozen=True, slots=True)
class NumberFormats:
    """What is computed in which dtype.

    `kv` is what K and V are kept in, `projections` the weight matrices. With `has_four_bit`,
    4-bit weights stay 4-bit for small batches; with `has_eight_bit`, weights are rounded to 8 bits
    after they were read.
    """

    activations: torch.dtype
    projections: torch.dtype
    kv: torch.dtype
    has_four_bit: bool
    has_eight_bit: bool = False

    @property
    def name(self) -> str:
        """How the program tells it."""
        return "int8" if self.has_eight_bit else str(self.activations).removeprefix("torch.")


def load_core(
    open_model: Callable[[], OpenedModel],
    settings: Settings,
    on_load: OnLoad,
    *,
    is_deleted: Callable[[str], bool] = lambda chat_id: False,
) -> tuple[EngineCore, ReadyEvent]:
    """Load the model that `open_model` returns, telling every stage to `on_load`.

    `is_deleted` tells whether a chat's KV must not be kept in files; on a thread of its own.
    torch is imported before the model is asked for: the two take their time side by side.
    Raises ModelError, and NoRoom when the settings leave no room for the KV pool.
    """
    started_s = time.perf_counter()
    on_load(LoadEvent("Starting torch"))
    wait_briefly()
    import torch

    from localpaged.engine.answer import Vocabulary
    from localpaged.engine.kv_storage import KVStorage, block_bytes
    from localpaged.engine.native import NativeDecoder
    from localpaged.engine.runner import ModelRunner
    from localpaged.models.weights import load_state

    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    opened = open_model()
    formats = choose_formats(opened, settings)
    bytes_a_block = block_bytes(opened.config, formats.kv, block_size=BLOCK_SIZE_TOKENS)
    engine_config = size_pool(opened.config, settings, block_bytes=bytes_a_block)
    plan = plan_memory(opened, formats, engine_config, block_bytes=bytes_a_block)
    free_bytes = psutil.virtual_memory().available
    on_load(LoadEvent("Memory needed of what is free", plan.total_bytes, free_bytes, "bytes"))
    plan.check(opened.name, free_bytes=free_bytes)
    keeping = _keeping(opened, settings, is_deleted)
    state = load_state(
        opened,
        dtype=formats.activations,
        projection_dtype=formats.projections,
        with_four_bit=formats.has_four_bit,
        on_progress=lambda stage, done, total: on_load(LoadEvent(stage, done, total, "bytes")),
    )
    if formats.has_eight_bit:
        from localpaged.engine.eight_bit import to_eight_bit

        on_load(LoadEvent("Rounding weights to 8 bits"))
        state = to_eight_bit(opened.config, state)
    on_load(LoadEvent("Allocating KV blocks", 0, engine_config.num_blocks, "blocks"))
    kv = KVStorage(
        opened.config,
        num_blocks=engine_config.num_blocks,
        block_size=engine_config.block_size,
        dtype=formats.kv,
        host_blocks=engine_config.host_blocks,
    )
    decoder = NativeDecoder(opened.config, state)
    weight_bytes = sum(tensor.nbytes for tensor in {id(t): t for t in state.values()}.values())
    del state
    give_back()
    runner = ModelRunner(decoder, kv, padding_ids=opened.chat.padding_ids)
    core = _core_type(keeping, kv, formats, on_load)(
        engine_config,
        runner,
        Vocabulary(
            opened.chat.token_bytes,
            opened.chat.eos_ids,
            strips_first_space=opened.chat.strips_first_space,
        ),
        model_name=opened.name,
        device=DEVICE,
        block_bytes=bytes_a_block,
        weight_bytes=weight_bytes,
    )
    ready = ReadyEvent(
        model_name=opened.name,
        device=DEVICE,
        dtype=formats.name,
        context_length=engine_config.context_length,
        load_s=time.perf_counter() - started_s,
    )
    return core, ready


def _keeping(
    opened: OpenedModel, settings: Settings, is_deleted: Callable[[str], bool]
) -> KVKeeping | None:
    budget_bytes = settings.kv_disk_bytes
    if not budget_bytes:
        return None
    return KVKeeping(opened, budget_bytes=budget_bytes, is_deleted=is_deleted)


def _core_type(
    keeping: KVKeeping | None, kv: KVStorage, formats: NumberFormats, on_load: OnLoad
) -> Callable[..., EngineCore]:
    """Return what makes the core: one whose KV outlives it, where that is wanted and possible."""
    from localpaged.engine.core import EngineCore
    from localpaged.engine.keeping_core import KeepingCore

    if keeping is None:
        return EngineCore
    keeper = keeping.keeper(
        kv,
        compute=str(formats),
        on_progress=lambda done, total: on_load(
            LoadEvent("Checking weights for KV files", done, total, "bytes")
        ),
    )
    return EngineCore if keeper is None else partial(KeepingCore, store=kv, keeper=keeper)


def give_back_memory() -> None:
    """Return freed memory to the system, where the C library keeps it for itself.

    Weights come in pieces too small to be given back one by one: without this a model that was
    unloaded would go on counting as memory in use, and the next one would be refused.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def choose_formats(opened: OpenedModel, settings: Settings) -> NumberFormats:
    """Choose the fastest formats of this processor that the settings allow."""
    import torch

    from localpaged.engine.eight_bit import can_be_eight_bit

    abilities = torch.cpu.get_capabilities()
    is_fast = any(abilities.get(name) for name in ("amx_bf16", "avx512_bf16", "bf16"))
    if settings.dtype == "float32" or (settings.dtype == "auto" and not is_fast):
        kv = _kv_dtype(settings, torch.float32)
        return NumberFormats(torch.float32, torch.float32, kv, has_four_bit=False)
    if settings.dtype == "auto" and can_be_eight_bit(opened.config):
        kv = _kv_dtype(settings, torch.bfloat16)
        return NumberFormats(
            torch.bfloat16, torch.bfloat16, kv, has_four_bit=False, has_eight_bit=True
        )
    # Without AMX a core multiplies float32 matrices faster than bfloat16 ones; it is a matter of
    # memory whether the weights can be kept that wide.
    fits_wide = (
        opened.weight_bytes(4) <= WIDE_SHARE_OF_FREE_MEMORY * psutil.virtual_memory().available
    )
    is_wide = not abilities.get("amx_bf16") and fits_wide
    return NumberFormats(
        torch.bfloat16,
        torch.float32 if is_wide else torch.bfloat16,
        _kv_dtype(settings, torch.bfloat16),
        has_four_bit=True,
    )


def plan_memory(
    opened: OpenedModel, formats: NumberFormats, engine_config: EngineConfig, *, block_bytes: int
) -> MemoryPlan:
    """Return what the model will take in these formats."""
    # The 4-bit copies are the file's own numbers; the dense ones are counted at their widest.
    copies = opened.file_bytes if formats.has_four_bit else 0
    blocks = (engine_config.initial_blocks or engine_config.num_blocks) + engine_config.host_blocks
    return MemoryPlan(
        weight_bytes=opened.weight_bytes(formats.projections.itemsize) + copies,
        kv_bytes=blocks * block_bytes,
        working_bytes=working_bytes(opened.config, step_tokens=engine_config.step_tokens),
    )


def size_pool(config: DecoderConfig, settings: Settings, *, block_bytes: int) -> EngineConfig:
    """Size the KV pool by need: one full chat at first, growing to a few, or to what was given.

    A share of the free memory is a limit only, never a size. A context that does not fit the pool
    is clamped to it when it was not asked for. Raises ConfigError for more than the model takes,
    and NoRoom with the numbers when not even the smallest context fits, or not the one asked for.
    """
    asked = settings.context_tokens
    if asked is not None and asked > config.context_length:
        raise ConfigError(
            f"A context of {asked:,} tokens is too long for the model; it takes"
            f" {config.context_length:,}.",
            hint="Ask for less, or leave it out to have all of it.",
        )
    context = asked or config.context_length
    smallest_context = asked or min(context, MIN_CONTEXT_TOKENS)
    cap_bytes = _cap_bytes(settings)
    num_blocks = cap_bytes // block_bytes
    if settings.kv_memory_bytes is None:
        num_blocks = min(FULL_CHATS * _num_blocks(context), num_blocks)
    if num_blocks < _num_blocks(smallest_context):
        needed = _num_blocks(smallest_context) * block_bytes
        raise NoRoom(
            f"A context of {smallest_context:,} tokens needs {needed / 2**20:,.1f} MiB of KV"
            f" memory; {cap_bytes / 2**20:,.1f} MiB are there.",
            hint="Ask for a smaller context or give more KV memory.",
        )
    return EngineConfig(
        num_blocks=num_blocks,
        context_length=min(context, num_blocks * BLOCK_SIZE_TOKENS),
        initial_blocks=min(_num_blocks(context), num_blocks),
        slab_blocks=-(-_num_blocks(context) // SLABS_PER_CHAT),
        host_blocks=settings.host_memory_bytes // block_bytes,
        max_drafts=MAX_DRAFTS,
    )


def _cap_bytes(settings: Settings) -> int:
    memory = psutil.virtual_memory()
    given = settings.kv_memory_bytes
    if given is None:
        return int(memory.available * KV_SHARE_OF_FREE_MEMORY)
    if given > memory.total:
        raise NoRoom(
            f"{given / 2**30:,.1f} GiB of KV memory are more than the machine has:"
            f" {memory.total / 2**30:,.1f} GiB.",
            hint="Give less KV memory.",
        )
    return given


def _num_blocks(num_tokens: int) -> int:
    return -(-num_tokens // BLOCK_SIZE_TOKENS)


def _kv_dtype(settings: Settings, activations: torch.dtype) -> torch.dtype:
    import torch

    chosen = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
    return chosen.get(settings.kv_dtype, activations)
