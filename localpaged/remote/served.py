"""Which models a server has, and what kind of server it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localpaged.errors import EndpointError, ModelNotFound
from localpaged.plain_text import visible
from localpaged.remote.dialects import DIALECTS, Dialect, dialect_of
from localpaged.remote.endpoint import AUTO, Endpoint

SHOWN_MODELS = 8
MAX_ID_CHARS = 500
MAX_CONTEXT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as its server lists it; `context` is None where it does not tell."""

    id: str
    owned_by: str = ""
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """What a server has."""

    models: Sequence[ServedModel]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an endpoint before it is asked: its model, its dialect, its context.

    `is_sure`: its model is listed. A server that still loads one lists none.
    """

    model: str
    dialect: Dialect
    context: int | None
    is_sure: bool = True


def read_served(endpoint: Endpoint, body: bytes) -> Served:
    """Return what a list of models tells. Raises EndpointError for what is no such list."""
    try:
        listed = json.loads(body)
        entries = listed["data"] if isinstance(listed, dict) else listed
        models = [model for entry in entries if (model := _model(entry)) is not None]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise EndpointError(
            f"{visible(endpoint.name)}: the list of models is not what OpenAI's API has.",
            hint=f"Is {visible(endpoint.url)} the API's address? Most end in /v1.",
        ) from None
    return Served(models)


def known_of(endpoint: Endpoint, served: Served | None) -> Known:
    """Return what an endpoint is to be asked for. Raises ModelNotFound with what there is."""
    models = () if served is None else served.models
    # Ollama lists llama3 as llama3:latest
    asked = (endpoint.model, f"{endpoint.model}:latest")
    found = next((model for model in models if model.id in asked), None)
    if not endpoint.model:
        if len(models) != 1:
            raise _which(endpoint, models)
        found = models[0]
    elif found is None and models:
        raise _which(endpoint, models)
    owner = found.owned_by if found is not None else ""
    dialect = dialect_of(owner) if endpoint.kind == AUTO else DIALECTS[endpoint.kind]
    return Known(
        endpoint.model if found is None else found.id,
        dialect.with_extras(endpoint.sampling, can_continue=endpoint.can_continue),
        endpoint.context or (None if found is None else found.context),
        is_sure=found is not None or served is None,
    )


def _which(endpoint: Endpoint, models: Sequence[ServedModel]) -> ModelNotFound:
    name = visible(endpoint.name)
    ids = [visible(model.id) for model in models[:SHOWN_MODELS]]
    more = f" and {len(models) - SHOWN_MODELS:,} more" if len(models) > SHOWN_MODELS else ""
    there = f"It has {', '.join(ids)}{more}." if ids else "It names none; it may still be loading."
    if not endpoint.model:
        hint = "Name one: #MODEL after the address, or model = in its section."
        return ModelNotFound(f"{name}: no model was named. {there}", hint=hint)
    return ModelNotFound(f"{name}: there is no model {visible(endpoint.model)!r}.", hint=there)


def _model(entry: Any) -> ServedModel | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        return None
    owner = entry.get("owned_by")
    return ServedModel(
        entry["id"][:MAX_ID_CHARS], owner if isinstance(owner, str) else "", _context(entry)
    )


def _context(entry: Mapping[str, Any]) -> int | None:
    """Find the context where vLLM and SGLang, llama.cpp, and others tell it."""
    meta = entry.get("meta")
    places = [
        entry.get("max_model_len"),
        # not n_ctx_train: servers mostly run with less than a model was made for
        meta.get("n_ctx") if isinstance(meta, dict) else None,
        entry.get("context_length"),
        entry.get("max_context_length"),
    ]
    return next((n for n in places if type(n) is int and 0 < n <= MAX_CONTEXT), None)
