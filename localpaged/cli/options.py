"""Options that several commands share, and the settings made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from localpaged.cli.completing import complete_models
from localpaged.config import (
    DEFAULT_KV_DISK_BYTES,
    DEFAULT_WEIGHTS_DISK_BYTES,
    DTYPES,
    KV_DTYPES,
    Settings,
)
from localpaged.config_file import ConfigFile, read_config
from localpaged.config_schema import ENGINE, KEYS, ConfigKey, size_of

ENGINE_KEYS = {key.name: key for key in KEYS if key.section == ENGINE}

F = TypeVar("F", bound=Callable[..., Any])


class ByteSize(click.ParamType[int]):
    """A number of bytes, such as 512M or 1.5G."""

    name = "size"

    def __init__(self, *, or_none: bool = False) -> None:
        """With `or_none`, 0 is a size as well."""
        self._or_none = or_none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        num_bytes = size_of(str(value), or_none=self._or_none)
        if num_bytes is None:
            self.fail(f"{value!r} is not a size; write 512M or 1.5G.", param, ctx)
        return num_bytes


@dataclass(frozen=True, slots=True)
class Chosen:
    """The value of an engine setting and where it comes from; None is left to the machine."""

    key: ConfigKey
    value: Any
    source: str


def engine_options(command: F) -> F:
    """Add the options that say which model runs and in how much memory."""
    model = _option(
        "--model",
        "-m",
        help="Name or path of the model, or http://HOST/v1#NAME; `models list` shows what is here.",
        shell_complete=complete_models,
    )
    return model(memory_options(command))


def memory_options(command: F) -> F:
    """Add the options that say in how much memory, with what and in which numbers is computed."""
    for option in (
        _option("--threads", type=int, help="Cores that compute."),
        _option("--kv-memory", type=ByteSize(), help="Limit of KV memory, such as 512M."),
        _option(
            "--host-memory",
            type=ByteSize(),
            help="Host memory for KV that does not fit, such as 4G.",
        ),
        _option(
            "--kv-disk",
            type=ByteSize(or_none=True),
            help="Disk space for KV kept for the next run, such as 2G; 0 keeps none.",
        ),
        _option(
            "--weights-disk",
            type=ByteSize(or_none=True),
            help="Disk space for rounded weights kept for the next start; 0 keeps none.",
        ),
        _option("--kv-dtype", type=click.Choice(KV_DTYPES), help="Number format of KV."),
        _option("--context", type=click.IntRange(1), help="Tokens a chat may have."),
        _option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:N: where to compute."),
        _option("--dtype", type=click.Choice(DTYPES), help="Number format to compute in."),
    ):
        command = option(command)
    return command


def settings_from(options: Mapping[str, Any], config: ConfigFile | None = None) -> Settings:
    """Return the settings of the engine options over those of the config file.

    The file is read unless it is given. Raises ConfigError.
    """
    from localpaged.models.catalogue import DEFAULT_MODEL

    config = config or read_config()
    chosen = {name: options.get(name) for name in ENGINE_KEYS}
    origins = {}
    for name, key in ENGINE_KEYS.items():
        if chosen[name] is not None:
            if _is_variable(click.get_current_context(silent=True), name):
                origins[name] = key.variable
        elif (value := getattr(config.engine, name)) is not None:
            chosen[name] = value
            origins[name] = f"{key.path} in {config.path}"
    return Settings(
        model=chosen["model"] or DEFAULT_MODEL,
        dtype=chosen["dtype"] or "auto",
        kv_dtype=chosen["kv_dtype"] or "auto",
        context_tokens=chosen["context"],
        kv_memory_bytes=chosen["kv_memory"],
        host_memory_bytes=chosen["host_memory"] or 0,
        kv_disk_bytes=_or(DEFAULT_KV_DISK_BYTES, chosen["kv_disk"]),
        weights_disk_bytes=_or(DEFAULT_WEIGHTS_DISK_BYTES, chosen["weights_disk"]),
        threads=chosen["threads"],
        device=chosen["device"] or "auto",
        origins=origins,
        sampling=config.sampling,
        remotes=config.remotes,
    )


def _or(default: int, chosen: int | None) -> int:
    """Return what was chosen, which may be nothing at all."""
    return default if chosen is None else chosen


def engine_sources(ctx: click.Context, config: ConfigFile) -> list[Chosen]:
    """Return each engine setting of a command's context, and who set it."""
    found = []
    for key in ENGINE_KEYS.values():
        value, source = ctx.params[key.name], "command line"
        if value is None:
            value, source = getattr(config.engine, key.name), "config file"
        elif _is_variable(ctx, key.name):
            source = key.variable
        found.append(Chosen(key, value, "default" if value is None else source))
    return found


class _EngineOption(click.Option):
    """An option whose value, when it is wrong, is blamed on who gave it."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        try:
            return super().process_value(ctx, value)
        except click.BadParameter as error:
            if _is_variable(ctx, self.name):
                error.param_hint = str(self.envvar)
            raise


def _is_variable(ctx: click.Context | None, name: str | None) -> bool:
    """Whether a parameter's value came from the environment."""
    if ctx is None or name is None:
        return False
    return ctx.get_parameter_source(name) is ParameterSource.ENVIRONMENT


def _option(name: str, *more: str, **attributes: Any) -> Callable[[F], F]:
    key = ENGINE_KEYS[name.removeprefix("--").replace("-", "_")]
    return click.option(name, *more, cls=_EngineOption, envvar=key.variable, **attributes)
