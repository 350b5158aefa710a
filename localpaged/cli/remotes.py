"""Endpoints of the config file, as lists of commands show them: never with a key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from localpaged.plain_text import visible
from localpaged.remote.endpoint import Endpoint
from localpaged.remote.section import KEYS, REMOTE, shown_values

EXAMPLE_NAME = "gpu-box"


def config_rows(remotes: Sequence[Endpoint]) -> Iterable[tuple[str, Any, str]]:
    """Return what each section says: name, value, where from."""
    for endpoint in remotes:
        for key, value in shown_values(endpoint):
            yield f"{REMOTE}.{endpoint.name}.{key}", value, "config file"


def template_lines() -> Iterable[str]:
    """Return a section as comments, with every key it may have."""
    yield from ("", "# Models of OpenAI-compatible servers: --model NAME asks them.")
    yield f"# [{REMOTE}.{EXAMPLE_NAME}]"
    texts = [f"{key.name} = {key.example}" for key in KEYS]
    width = max(map(len, texts))
    for text, key in zip(texts, KEYS, strict=True):
        yield f"# {text:<{width}}  # {key.doc}"


def list_rows(remotes: Sequence[Endpoint]) -> list[tuple[str, ...]]:
    """Return rows for the list of models: name, format, size, from."""
    return [(e.name, "endpoint", "-", visible(_origin(e))) for e in remotes]


def list_values(remotes: Sequence[Endpoint]) -> list[dict[str, Any]]:
    """Return what the list of models is in JSON, with the keys that models here have."""
    return [
        {
            "name": e.name,
            "path": None,
            "origin": _origin(e),
            "is_owned": False,
            "format": "endpoint",
            "file_bytes": 0,
            "problem": None,
        }
        for e in remotes
    ]


def described(endpoint: Endpoint) -> list[tuple[str, ...]]:
    """Return all that is said of an endpoint, as rows."""
    values = [(key, visible(str(value))) for key, value in shown_values(endpoint)]
    return [("name", visible(endpoint.name)), ("format", "endpoint"), *values]


def _origin(endpoint: Endpoint) -> str:
    return f"{endpoint.url}#{endpoint.model}" if endpoint.model else endpoint.url
