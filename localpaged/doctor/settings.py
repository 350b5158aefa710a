"""Facts of the config file and of our environment variables, and the settings they make."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from localpaged import paths
from localpaged.config import DEFAULT_KV_DISK_BYTES, DEFAULT_WEIGHTS_DISK_BYTES, Settings
from localpaged.config_file import ConfigFile, read_config
from localpaged.config_schema import ENGINE, KEYS, VARIABLE_PREFIX, ConfigKey, WrongKind
from localpaged.doctor.fact import Fact, note, problem
from localpaged.errors import ConfigError
from localpaged.models.catalogue import DEFAULT_MODEL

ENGINE_KEYS = [key for key in KEYS if key.section == ENGINE]


@dataclass(slots=True)
class Choices:
    """What is read on the way, for the facts that follow: what is wrong is left out. One thread."""

    config: ConfigFile | None = None
    engine: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> Settings:
        """Return the settings that would hold. Raises ConfigError for those that cannot be."""
        chosen = dict(self.engine)
        origins = {key.name: key.variable for key in ENGINE_KEYS if key.name in chosen}
        for key in ENGINE_KEYS:
            if self.config is not None and key.name not in chosen:
                chosen[key.name] = value = getattr(self.config.engine, key.name)
                if value is not None:
                    origins[key.name] = f"{key.path} in {self.config.path}"
        kv_disk, weights_disk = chosen.get("kv_disk"), chosen.get("weights_disk")
        return Settings(
            model=chosen.get("model") or DEFAULT_MODEL,
            dtype=chosen.get("dtype") or "auto",
            kv_dtype=chosen.get("kv_dtype") or "auto",
            context_tokens=chosen.get("context"),
            kv_memory_bytes=chosen.get("kv_memory"),
            host_memory_bytes=chosen.get("host_memory") or 0,
            kv_disk_bytes=DEFAULT_KV_DISK_BYTES if kv_disk is None else kv_disk,
            weights_disk_bytes=(
                DEFAULT_WEIGHTS_DISK_BYTES if weights_disk is None else weights_disk
            ),
            threads=chosen.get("threads"),
            device=chosen.get("device") or "auto",
            origins=origins,
            remotes=self.config.remotes if self.config is not None else (),
        )


def config_facts(choices: Choices) -> Iterator[Fact]:
    """Read the config file, its keymap included. Raises ConfigError with what is wrong there."""
    path = paths.config_file()
    # what is wrong in it is raised, with file and key: that is the fact then
    config = read_config(path)
    if config.keymap:
        from localpaged.tui.keymap import make_keymap

        make_keymap(config)
    choices.config = config
    if not paths.is_there(path):
        yield Fact("config file", f"none; {path} would be read", numbers={"keys": 0})
        return
    given = len(config.given) + len(config.remotes)
    yield Fact("config file", f"{path} sets {given}", numbers={"keys": given})


def variable_facts(choices: Choices, environment: Mapping[str, str]) -> Iterator[Fact]:
    """Tell which of our variables are set, and which of them mean nothing."""
    known = {key.variable: key for key in ENGINE_KEYS}
    for name in sorted(environment):
        if not name.startswith(VARIABLE_PREFIX):
            continue
        text = environment[name]
        if name == paths.HOME_VARIABLE:
            yield Fact(name, text or "empty: as if it were not set")
        elif name in known:
            yield _read(choices, known[name], text)
        else:
            near = difflib.get_close_matches(name, [*known, paths.HOME_VARIABLE], n=1)
            wish = f"Did you mean {near[0]}?" if near else "Unset it."
            yield note(name, f"{text}; localpaged knows no such variable", wish)


def _read(choices: Choices, key: ConfigKey, text: str) -> Fact:
    if not text:
        return Fact(key.variable, "empty: as if it were not set")
    try:
        choices.engine[key.name] = value = _value(key, text)
        # alone, so that it is told which one is wrong
        Choices(engine={key.name: value}).settings()
    except WrongKind as wrong:
        choices.engine.pop(key.name, None)
        return problem(key.variable, text, f"It must be {wrong}: correct it, or unset it.")
    except ConfigError as error:
        if key.name != "model":
            choices.engine.pop(key.name, None)
        # the fact has the variable's name
        sentence = error.message.removeprefix(f"{key.variable}: ")
        return problem(key.variable, f"{text}: {sentence}", error.hint)
    return Fact(key.variable, text)


def _value(key: ConfigKey, text: str) -> Any:
    if key.kind != "whole":
        return key.value_of(text)
    try:
        return key.value_of(int(text))
    except ValueError:
        raise WrongKind("a whole number") from None
