"""A `[remote.NAME]` section of the config file: every key it may have, and what it becomes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from localpaged.errors import ConfigError
from localpaged.plain_text import visible
from localpaged.remote.endpoint import KINDS, NAME, Endpoint

REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class SectionKey:
    """One key: `kind` is text, texts, whole, number, flag or table; the example is TOML."""

    name: str
    kind: str
    doc: str
    example: str


KEYS = (
    SectionKey("url", "text", "where the API is, mostly up to /v1", '"http://gpu-box:8000/v1"'),
    SectionKey("model", "text", "as its server calls it (the only one it has)", '"qwen3-32b"'),
    SectionKey("kind", "text", f"of server: {', '.join(KINDS)}", '"auto"'),
    SectionKey("key_env", "text", "the environment variable that has the key", '"GPU_BOX_KEY"'),
    SectionKey("key_keyring", "text", "the keyring's entry that has it", '"localpaged/gpu-box"'),
    SectionKey("plain_http", "flag", "send the key over http:// to another machine", "false"),
    SectionKey("headers", "table", "further headers, none with a key", '{ X-Team = "lab" }'),
    SectionKey("context", "whole", "tokens of context, if the server tells none", "32768"),
    SectionKey("timeout_s", "number", "seconds until the first word", "120"),
    SectionKey("idle_timeout_s", "number", "seconds between two words", "60"),
    SectionKey("connect_timeout_s", "number", "seconds to connect", "10"),
    SectionKey("sampling", "texts", "parameters it knows beyond its kind's", '["top_k", "min_p"]'),
    SectionKey("can_continue", "flag", "goes on with an answer that was cut", "true"),
)
_BY_NAME = {key.name: key for key in KEYS}
_WHAT = {
    "text": "a text",
    "texts": "a list of texts",
    "whole": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "table": "a table of texts",
}


def read_sections(table: Mapping[str, Any]) -> tuple[Endpoint, ...]:
    """Return the endpoints that the config file's `remote` has. Raises ConfigError with the key."""
    found: list[Endpoint] = []
    for name, section in table.items():
        if not isinstance(section, dict):
            raise ConfigError(
                f"{REMOTE}.{visible(name)} must be a section, written [{REMOTE}.NAME]."
            )
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{REMOTE}.{visible(name)!r} cannot be the name of an endpoint.",
                hint="Use letters, digits, dots, dashes and underscores; 64 at most.",
            )
        if any(other.name.lower() == name.lower() for other in found):
            raise ConfigError(f"{REMOTE}.{name} is there twice; capitals make no difference.")
        found.append(_endpoint(name, section))
    return tuple(found)


def shown_values(endpoint: Endpoint) -> Iterable[tuple[str, Any]]:
    """Return the keys of an endpoint with their values as anybody may see them."""
    plain = Endpoint(endpoint.name, endpoint.url)
    for key in KEYS:
        value = getattr(endpoint, key.name)
        if key.name == "url" or value != getattr(plain, key.name):
            if key.kind == "table":
                # a header may be as good as a key: its name is enough
                value = [name for name, _ in value]
            yield key.name, list(value) if isinstance(value, tuple) else value


def _endpoint(name: str, section: Mapping[str, Any]) -> Endpoint:
    values = {}
    for key_name, raw in section.items():
        if key_name not in _BY_NAME:
            near = difflib.get_close_matches(key_name, _BY_NAME, n=1)
            wish = f"did you mean {near[0]}?" if near else f"there are {', '.join(_BY_NAME)}."
            raise ConfigError(f"there is no key {REMOTE}.{name}.{visible(key_name)}; {wish}")
        values[key_name] = _value(name, _BY_NAME[key_name], raw)
    if "url" not in values:
        raise ConfigError(f"{REMOTE}.{name} has no url.", hint='url = "http://host:8000/v1"')
    try:
        return Endpoint(name=name, **values)
    except ConfigError as error:
        raise ConfigError(f"{REMOTE}.{name}: {error.message}", hint=error.hint) from None


def _value(section: str, key: SectionKey, raw: Any) -> Any:
    match key.kind:
        case "text":
            is_right, value = isinstance(raw, str) and bool(raw.strip()), raw
        case "texts":
            is_right = isinstance(raw, list) and all(isinstance(part, str) for part in raw)
            value = tuple(raw) if is_right else ()
        case "whole":
            is_right, value = type(raw) is int, raw
        case "number":
            is_right, value = type(raw) in (int, float), raw
        case "flag":
            is_right, value = type(raw) is bool, raw
        case _:
            is_right = isinstance(raw, dict) and all(isinstance(v, str) for v in raw.values())
            value = tuple(raw.items()) if is_right else ()
    if not is_right:
        # the value itself may be a key in the wrong place
        raise ConfigError(f"{REMOTE}.{section}.{key.name} must be {_WHAT[key.kind]}.")
    return value
