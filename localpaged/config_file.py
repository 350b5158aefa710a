"""The config file: read once, checked whole, frozen. What is wrong is told with file and key.

Command line goes before environment, environment before this file, the file before defaults.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localpaged import paths
from localpaged.config import Settings
from localpaged.config_schema import (
    DEFAULT_WIDTH_CELLS,
    ENGINE,
    KEYMAP,
    KEYS,
    REMOTE,
    SAMPLING,
    SECTIONS,
    SERVER,
    UI,
    ConfigKey,
    WrongKind,
)
from localpaged.engine.params import SamplingParams
from localpaged.errors import BadParameter, ConfigError

if TYPE_CHECKING:
    from localpaged.remote.endpoint import Endpoint

MAX_BYTES = 1 << 16
MIN_WIDTH_CELLS = 20


@dataclass(frozen=True, slots=True)
class EngineChoices:
    """What the file says of model and memory; None is not said. Sizes are bytes."""

    model: str | None = None
    context: int | None = None
    kv_memory: int | None = None
    kv_dtype: str | None = None
    host_memory: int | None = None
    kv_disk: int | None = None
    weights_disk: int | None = None
    dtype: str | None = None
    threads: int | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True)
class ServerChoices:
    """What the file says of the HTTP server; None is not said."""

    host: str | None = None
    port: int | None = None
    api_key_file: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_requests: int | None = None


@dataclass(frozen=True, slots=True)
class UiSettings:
    """How the chat looks. `theme` empty is the one chosen last; `width` 0 is all there is."""

    theme: str = ""
    width: int = DEFAULT_WIDTH_CELLS
    ascii: bool = False


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The file's settings; `given` names the keys that it has, as section.name."""

    path: Path
    engine: EngineChoices = field(default_factory=EngineChoices)
    sampling: SamplingParams = field(default_factory=SamplingParams)
    server: ServerChoices = field(default_factory=ServerChoices)
    ui: UiSettings = field(default_factory=UiSettings)
    keymap: tuple[tuple[str, tuple[str, ...]], ...] = ()
    remotes: tuple[Endpoint, ...] = ()
    given: frozenset[str] = frozenset()

    def error(self, sentence: str, *, hint: str = "") -> ConfigError:
        """Return an error that names the file."""
        return ConfigError(f"{self.path}: {sentence}", hint=hint)


def read_config(path: Path | None = None) -> ConfigFile:
    """Read the user's config file, or `path`; a missing one is all defaults. Raises ConfigError."""
    config = ConfigFile(path or paths.config_file())
    content = _content(config)
    return config if content is None else _parsed(config, content)


def _content(config: ConfigFile) -> str | None:
    path = config.path
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            # opening a pipe would wait for ever
            raise config.error("this is not a file.", hint="Put a text file in its place.")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise config.error(f"it cannot be read: {error.strerror}.") from error
    if len(raw) > MAX_BYTES:
        raise config.error(f"it is longer than {MAX_BYTES:,} bytes.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise config.error(f"line {line} is not UTF-8.", hint="Save the file as UTF-8.") from error


def _parsed(config: ConfigFile, content: str) -> ConfigFile:
    import tomllib

    try:
        document = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise config.error(
            f"this is not TOML: {str(error).rstrip('.')}.",
            hint="`localpaged config --template` prints a file to begin with.",
        ) from error
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    remotes = _remotes(config, document.pop(REMOTE, {}))
    for section, table in document.items():
        if section not in SECTIONS:
            known = (*SECTIONS, f"{REMOTE}.NAME")
            raise config.error(*_unknown(f"section or key {section!r}", section, known))
        if not isinstance(table, dict):
            raise config.error(f"{section} must be a section, written [{section}].")
        if section == KEYMAP:
            values[KEYMAP] = _keymap(config, table)
        else:
            values[section] = _section(config, section, table)
    return replace(_checked(config, values), remotes=remotes)


def _remotes(config: ConfigFile, table: Any) -> tuple[Endpoint, ...]:
    if table == {}:
        return ()
    from localpaged.remote.section import read_sections

    if not isinstance(table, dict):
        raise config.error(f"{REMOTE} must be sections, written [{REMOTE}.NAME].")
    try:
        return read_sections(table)
    except ConfigError as error:
        raise config.error(error.message, hint=error.hint) from None


def _section(config: ConfigFile, section: str, table: Mapping[str, Any]) -> dict[str, Any]:
    known = {key.name: key for key in KEYS if key.section == section}
    values = {}
    for name, raw in table.items():
        if name not in known:
            raise config.error(*_unknown(f"key {section}.{name}", name, known))
        values[name] = _value(config, known[name], raw)
    return values


def _value(config: ConfigFile, key: ConfigKey, raw: Any) -> Any:
    try:
        return key.value_of(raw)
    except WrongKind as wrong:
        raise config.error(f"{key.path} must be {wrong}, not {_shown(raw)}.") from wrong
    except BadParameter as error:
        raise config.error(f"{key.path}: {error.message}") from error


def _keymap(config: ConfigFile, table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    keymap = {}
    for action, raw in table.items():
        keys = [raw] if isinstance(raw, str) else raw
        is_keys = isinstance(keys, list) and bool(keys)
        if not is_keys or not all(isinstance(key, str) for key in keys):
            raise config.error(f"{KEYMAP}.{action} must be a key or a list of keys.")
        keymap[action] = tuple(keys)
    return keymap


def _checked(config: ConfigFile, values: Mapping[str, dict[str, Any]]) -> ConfigFile:
    engine = EngineChoices(**values[ENGINE])
    try:
        _check_engine(engine)
        sampling = SamplingParams(**values[SAMPLING])
    except ConfigError as error:
        section = SAMPLING if isinstance(error, BadParameter) else ENGINE
        raise config.error(f"{section}: {error.message}", hint=error.hint) from error
    ui = UiSettings(**values[UI])
    if ui.width and ui.width < MIN_WIDTH_CELLS:
        raise config.error(f"{UI}.width must be 0 or at least {MIN_WIDTH_CELLS}, not {ui.width}.")
    return ConfigFile(
        path=config.path,
        engine=engine,
        sampling=sampling,
        server=ServerChoices(**values[SERVER]),
        ui=ui,
        keymap=tuple(values[KEYMAP].items()),
        given=frozenset(f"{section}.{name}" for section in SECTIONS for name in values[section]),
    )


def _check_engine(engine: EngineChoices) -> None:
    Settings(
        model=engine.model or "",
        dtype=engine.dtype or "auto",
        kv_dtype=engine.kv_dtype or "auto",
        context_tokens=engine.context,
        kv_memory_bytes=engine.kv_memory,
        host_memory_bytes=engine.host_memory or 0,
        kv_disk_bytes=engine.kv_disk or 0,
        weights_disk_bytes=engine.weights_disk or 0,
        threads=engine.threads,
        device=engine.device or "auto",
    )


def _unknown(what: str, name: str, known: Iterable[str]) -> tuple[str, ...]:
    import difflib

    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    wish = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}."
    return (f"there is no {what}{wish}",)


def _shown(raw: Any) -> str:
    text = repr(raw)
    return text if len(text) <= 60 else f"{text[:59]}…"
