"""Every key of the config file: its section, what it takes, what it means. One table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from localpaged.chat.sampling_options import DRY_ON, OPTIONS
from localpaged.config import DTYPES, KV_DTYPES
from localpaged.engine.params import DryParams, SamplingParams

ENGINE, SAMPLING, SERVER, UI, KEYMAP = "engine", "sampling", "server", "ui", "keymap"
SECTIONS = (ENGINE, SAMPLING, SERVER, UI, KEYMAP)
REMOTE = "remote"
"""Endpoints have sections of their own, [remote.NAME]: see localpaged/remote/section.py."""
VARIABLE_PREFIX = "LOCALPAGED_"
DEFAULT_WIDTH_CELLS = 100
THEMES = ("dark", "light", "contrast", "ansi")

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)


class WrongKind(Exception):
    """A value is not of the kind that its key takes; the text tells which that is."""


def size_of(text: str, *, or_none: bool = False) -> int | None:
    """Return the bytes that a text such as 512M or 1.5G means; None when it means none.

    With `or_none` nothing is a size as well.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    num_bytes = int(Decimal(match[1]) * _UNITS[match[2].lower()])
    return num_bytes if num_bytes or or_none else None


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of the file.

    `kind` is text, texts, whole, number, size, size_or_none, flag, dry or choice.

    `default` and `example` are written as TOML; the example stands in the template.
    """

    section: str
    name: str
    kind: str
    doc: str
    default: str
    example: str
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that goes before the file; empty when there is none."""
        return f"{VARIABLE_PREFIX}{self.name.upper()}" if self.section == ENGINE else ""

    @property
    def path(self) -> str:
        """How messages call it."""
        return f"{self.section}.{self.name}"

    def value_of(self, raw: Any) -> Any:
        """Return what a value read from TOML means. Raises WrongKind."""
        match self.kind:
            case "text":
                return _checked(raw, isinstance(raw, str) and bool(raw.strip()), "a text")
            case "choice":
                return _checked(raw, raw in self.choices, f"one of {', '.join(self.choices)}")
            case "texts":
                is_texts = isinstance(raw, list) and all(isinstance(part, str) for part in raw)
                return tuple(_checked(raw, is_texts, "a list of texts"))
            case "whole":
                return _checked(raw, type(raw) is int, "a whole number")
            case "number":
                return _checked(raw, type(raw) in (int, float), "a number")
            case "flag":
                return _checked(raw, type(raw) is bool, "true or false")
            case "size":
                num_bytes = raw if type(raw) is int else size_of(str(raw))
                return _checked(num_bytes, bool(num_bytes), "a size such as 512M or 1.5G")
            case "size_or_none":
                num_bytes = raw if type(raw) is int else size_of(str(raw), or_none=True)
                is_size = num_bytes is not None and num_bytes >= 0
                return _checked(num_bytes, is_size, "0 or a size such as 512M or 1.5G")
            case _:
                return _dry(raw)


def _checked(raw: Any, is_right: bool, what: str) -> Any:
    if not is_right:
        raise WrongKind(what)
    return raw


def _dry(raw: Any) -> DryParams | None:
    if type(raw) is bool:
        return DRY_ON if raw else None
    if type(raw) not in (int, float):
        raise WrongKind("true, false or a multiplier")
    return DryParams(multiplier=raw) if raw else None


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _sampling_keys() -> Sequence[ConfigKey]:
    defaults = SamplingParams()
    examples = {"seed": "7", "max_tokens": "1024", "stop": '["###"]', "dry": "true"}
    keys = []
    for option in OPTIONS:
        value = getattr(defaults, option.name)
        default = option.unset or "none" if value is None or value == () else _toml(value)
        example = examples.get(option.name, default)
        keys.append(ConfigKey(SAMPLING, option.name, option.kind, option.doc, default, example))
    return keys


KEYS = (
    ConfigKey(
        ENGINE, "model", "text", "name or path of the model", "the packaged one", '"my-model"'
    ),
    ConfigKey(ENGINE, "context", "whole", "tokens a chat may have", "the model's", "8192"),
    ConfigKey(ENGINE, "kv_memory", "size", "limit of KV memory", "by need", '"2G"'),
    ConfigKey(
        ENGINE, "kv_dtype", "choice", "number format of KV memory", '"auto"', '"auto"', KV_DTYPES
    ),
    ConfigKey(
        ENGINE, "host_memory", "size", "host memory for KV that does not fit", "none", '"4G"'
    ),
    ConfigKey(
        ENGINE,
        "kv_disk",
        "size_or_none",
        "files that keep KV for the next run; 0 is none",
        '"2G"',
        '"2G"',
    ),
    ConfigKey(
        ENGINE,
        "weights_disk",
        "size_or_none",
        "files that keep rounded weights for the next start; 0 is none",
        '"16G"',
        '"16G"',
    ),
    ConfigKey(ENGINE, "dtype", "choice", "number format to compute in", '"auto"', '"auto"', DTYPES),
    ConfigKey(
        ENGINE, "device", "text", "where to compute: auto, cpu, cuda or cuda:N", '"auto"', '"auto"'
    ),
    ConfigKey(ENGINE, "threads", "whole", "cores that compute", "all", "4"),
    *_sampling_keys(),
    ConfigKey(SERVER, "host", "text", "address to listen on", '"127.0.0.1"', '"127.0.0.1"'),
    ConfigKey(SERVER, "port", "whole", "port to listen on; 0 is any", "8000", "8000"),
    ConfigKey(SERVER, "api_key_file", "text", "file with the API key", "none", '"~/.key"'),
    ConfigKey(SERVER, "allowed_hosts", "texts", "names of this machine", "[]", '["box.lan"]'),
    ConfigKey(
        SERVER, "allowed_origins", "texts", "web pages that may ask", "[]", '["https://a.b"]'
    ),
    ConfigKey(SERVER, "max_requests", "whole", "requests that may be open", "128", "128"),
    ConfigKey(
        UI,
        "theme",
        "choice",
        "look at the start",
        "the one chosen last",
        '"dark"',
        THEMES,
    ),
    ConfigKey(
        UI,
        "width",
        "whole",
        "columns of the transcript at most; 0 takes all there are",
        str(DEFAULT_WIDTH_CELLS),
        str(DEFAULT_WIDTH_CELLS),
    ),
    ConfigKey(UI, "ascii", "flag", "draw with ASCII characters alone", "false", "true"),
)
