"""Options that several commands share, and the settings made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import click

from localpaged.config import DTYPES, KV_DTYPES, Settings

MODEL_VARIABLE = "LOCALPAGED_MODEL"
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)

F = TypeVar("F", bound=Callable[..., Any])


class ByteSize(click.ParamType[int]):
    """A number of bytes, such as 512M or 1.5G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value).strip())
        num_bytes = 0 if match is None else int(Decimal(match[1]) * _UNITS[match[2].lower()])
        if not num_bytes:
            self.fail(f"{value!r} is not a size; write 512M or 1.5G.", param, ctx)
        return num_bytes


def engine_options(command: F) -> F:
    """Add the options that say which model runs and in how much memory."""
    for option in (
        click.option("--threads", type=int, help="Cores that compute."),
        click.option("--kv-memory", type=ByteSize(), help="Limit of KV memory, such as 512M."),
        click.option(
            "--host-memory", type=ByteSize(), help="Memory for KV that does not fit, such as 4G."
        ),
        click.option("--kv-dtype", type=click.Choice(KV_DTYPES), help="Number format of KV."),
        click.option("--context", type=click.IntRange(1), help="Tokens a chat may have."),
        click.option("--dtype", type=click.Choice(DTYPES), help="Number format to compute in."),
        click.option(
            "--model",
            "-m",
            envvar=MODEL_VARIABLE,
            help="Name or path of the model; `localpaged models list` shows what is here.",
        ),
    ):
        command = option(command)
    return command


def settings_from(options: Mapping[str, Any]) -> Settings:
    """Return the settings of the engine options; raises ConfigError."""
    from localpaged.models.catalogue import DEFAULT_MODEL

    return Settings(
        model=options["model"] or DEFAULT_MODEL,
        dtype=options["dtype"] or "auto",
        kv_dtype=options["kv_dtype"] or "auto",
        context_tokens=options["context"],
        kv_memory_bytes=options["kv_memory"],
        host_memory_bytes=options["host_memory"] or 0,
        threads=options["threads"],
    )
