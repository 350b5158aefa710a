"""Facts of every model that is here: whether it fits where models are computed, and how much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from localpaged.config import Settings
from localpaged.doctor.fact import Fact, note
from localpaged.errors import ConfigError, LocalPagedError, NoRoom
from localpaged.fitting.fit import SizedModel
from localpaged.fitting.nearest import nearest, require_fit
from localpaged.fitting.room import Room
from localpaged.memory_plan import gib
from localpaged.models.open_model import model_record
from localpaged.models.opened_model import types_of
from localpaged.models.registry import ModelEntry, list_entries
from localpaged.plain_text import visible

MOST_MODELS = 30
"""Each is opened, which takes up to a second when it was never used."""


def fit_facts(settings: Settings, room: Room) -> Iterator[Fact]:
    """Tell of each model on its own whether it fits, with which context. Raises ModelError."""
    entries = list_entries()
    for entry in entries[:MOST_MODELS]:
        yield _fact(entry, settings, room)
    if len(entries) > MOST_MODELS:
        yield Fact("fits", f"{len(entries) - MOST_MODELS} more models were not looked at")


def _fact(entry: ModelEntry, settings: Settings, room: Room) -> Fact:
    name, called = "fits", visible(entry.name)
    try:
        record = model_record(entry.path, is_kept=False)
    except LocalPagedError as error:
        return note(name, f"{called}: not known: {error.message}", error.hint)
    num_bytes = sum(place.num_bytes for place in record.places.values())
    model = SizedModel(entry.name, record.config, num_bytes, types_of(record.places))
    if settings.context_tokens is not None:
        # asked for the usual model; another may not have so many
        least = min(settings.context_tokens, record.config.context_length)
        settings = replace(settings, context_tokens=least)
    try:
        fit = require_fit(model, settings, room)
    except NoRoom as error:
        found = nearest(model, settings, room)
        options = found.options if found else None
        return note(
            name,
            f"{called}: no: {error.message}",
            error.hint,
            nearest=options,
            fits=False,
            name=entry.name,
        )
    except ConfigError as error:
        return note(name, f"{called}: no: {error.message}", error.hint, fits=False, name=entry.name)
    tokens = fit.engine.context_length
    text = (
        f"{called}: yes, {gib(fit.plan.total_bytes)} on {room.device.label}, context {tokens:,} of "
        f"{record.config.context_length:,} tokens, {fit.engine.num_blocks:,} KV blocks"
    )
    numbers = {
        "name": entry.name,
        "fits": True,
        "total_bytes": fit.plan.total_bytes,
        "context_tokens": tokens,
        "num_blocks": fit.engine.num_blocks,
    }
    return Fact(name, text, numbers=numbers)
