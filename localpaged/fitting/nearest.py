"""The nearest setting with which a model fits, and the refusal that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from localpaged.config import MIN_CONTEXT_TOKENS, Settings
from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.errors import ConfigError, NoRoom
from localpaged.fitting.fit import Fit, ModelSize, fit_of, fixed_plan, least_plan
from localpaged.fitting.formats import choose_formats
from localpaged.fitting.pool import USEFUL_CONTEXT_TOKENS, steps_on
from localpaged.fitting.room import Room
from localpaged.memory_plan import MemoryPlan, gib
from localpaged.models.weight_forms import INT4, INT8

ROUNDINGS = ((8_192, 1_024), (1_024, 256))
"""From how many tokens on a context is told in multiples of what: free memory moves a little."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Options with which a model fits, as they are written, and the settings they make."""

    options: str
    settings: Settings


def require_fit(
    opened: ModelSize,
    settings: Settings,
    room: Room,
    *,
    tell: Callable[[MemoryPlan], None] = lambda plan: None,
) -> Fit:
    """Return what a model takes, after its plan was told to `tell`.

    Raises NoRoom, with numbers and what would fit, when it does not fit, and ConfigError for what
    no memory makes possible.
    """
    try:
        fit = fit_of(opened, settings, room)
    except NoRoom as error:
        # where not even the least fits its numbers say more than those of KV alone
        plan = least_plan(opened, settings, room)
        tell(plan)
        _check(plan, opened, settings, room)
        raise NoRoom(error.message, hint=advice(opened, settings, room)) from None
    tell(fit.plan)
    _check(fit.plan, opened, settings, room)
    return fit


def _check(plan: MemoryPlan, opened: ModelSize, settings: Settings, room: Room) -> None:
    if not room.holds(plan):
        plan.check(
            opened.name,
            free_bytes=room.free_bytes,
            host_free_bytes=room.host_free_bytes,
            where=room.device.title if room.device.is_cuda else "",
            hint=advice(opened, settings, room),
        )


def advice(opened: ModelSize, settings: Settings, room: Room) -> str:
    """Return a sentence on what to do where a model does not fit."""
    found = nearest(opened, settings, room)
    if found is not None:
        return f"It fits with {found.options}."
    weights = _least_weight_bytes(opened, settings, room)
    if weights > room.free_bytes:
        what = f"the weights alone need {gib(weights)}"
    else:
        what = f"beside weights of {gib(weights)} there is no room to compute"
    return f"No setting fits: {what}. Take a smaller model, or free memory."


def nearest(opened: ModelSize, settings: Settings, room: Room) -> Suggestion | None:
    """Return the settings that fit and change as little as can be; None when none does."""
    for there, options, changed in _places(settings, room):
        longest = opened.config.context_length
        largest = min(changed.context_tokens or longest, longest)
        floors = (min(USEFUL_CONTEXT_TOKENS, largest), min(MIN_CONTEXT_TOKENS, largest))
        for floor in dict.fromkeys(floors):
            for more, changes in _changes(changed, there):
                found = _longest(opened, replace(changed, **changes), there, floor, largest)
                if found is not None:
                    # a context that is left out may be clamped, one that is given is not
                    is_shorter = found.context_tokens != settings.context_tokens
                    told = (
                        f"--context {found.context_tokens}" if is_shorter else "",
                        options,
                        more,
                    )
                    return Suggestion(" ".join(filter(None, told)), found)
    return None


def _places(settings: Settings, room: Room) -> Iterator[tuple[Room, str, Settings]]:
    yield room, "", settings
    if room.device.is_cuda:
        # what only a card computes in goes with it
        on_processor = replace(settings, device="cpu")
        yield room.of_processor(), "--device cpu", on_processor


def _changes(settings: Settings, room: Room) -> Iterator[tuple[str, dict[str, Any]]]:
    """Options that take less memory, from none to all, and what they set."""
    yield "", {}
    no_host = " and no --host-memory" if settings.host_memory_bytes else ""
    if settings.host_memory_bytes:
        yield "no --host-memory", {"host_memory_bytes": 0}
    if settings.kv_memory_bytes is not None:
        yield f"no --kv-memory{no_host}", {"kv_memory_bytes": None, "host_memory_bytes": 0}
    if settings.kv_dtype != "int8":
        yield "--kv-dtype int8", {"kv_dtype": "int8"}
    # on the processor 8 bits are what "auto" is, where they can be
    fewer_bits = (INT8, INT4) if room.device.is_cuda else ()
    for dtype in ("auto", "bfloat16", *fewer_bits):
        if settings.dtype != dtype:
            yield f"--dtype {dtype}", {"dtype": dtype}
            yield f"--dtype {dtype} --kv-dtype int8", {"dtype": dtype, "kv_dtype": "int8"}


def _longest(
    opened: ModelSize, settings: Settings, room: Room, floor: int, largest: int
) -> Settings | None:
    """Return the settings with the longest context that fits, None when not even `floor` does."""
    if _does_fit(opened, settings, room, floor):
        return settings
    if floor < MIN_CONTEXT_TOKENS:
        return None  # all that the model has is less than can be asked for
    if not _does_fit(opened, replace(settings, context_tokens=floor), room, floor):
        return None
    low, high = floor, largest + 1
    while high - low > 1:
        middle = (low + high) // 2
        does_fit = _does_fit(opened, replace(settings, context_tokens=middle), room, middle)
        low, high = (middle, high) if does_fit else (low, middle)
    tokens = max(floor, _rounded(low)) if low < largest else low
    return replace(settings, context_tokens=tokens)


def _rounded(tokens: int) -> int:
    for least, unit in ROUNDINGS:
        if tokens >= least:
            return tokens // unit * unit
    return tokens // BLOCK_SIZE_TOKENS * BLOCK_SIZE_TOKENS


def _does_fit(opened: ModelSize, settings: Settings, room: Room, floor: int) -> bool:
    try:
        fit = fit_of(opened, settings, room)
    except (NoRoom, ConfigError):
        return False
    return fit.fits and fit.engine.context_length >= floor


def _least_weight_bytes(opened: ModelSize, settings: Settings, room: Room) -> int:
    found = []
    narrowest = steps_on(opened.config, room)[-1]
    for _, changes in _changes(settings, room):
        formats = choose_formats(
            opened.config, replace(settings, **changes), room, file_form=opened.file_form
        )
        found.append(fixed_plan(opened, formats, room, narrowest).weight_bytes)
    return min(found)
