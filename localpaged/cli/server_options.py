"""Options of the HTTP server, and the settings made of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from localpaged.errors import ConfigError

if TYPE_CHECKING:
    from localpaged.config_file import ServerChoices
    from localpaged.server.settings import ServerSettings

MAX_KEY_BYTES = 4_096

F = TypeVar("F", bound=Callable[..., Any])


def server_options(command: F) -> F:
    """Add the options that say where to listen and for whom."""
    for option in (
        click.option("--max-requests", type=int, help="Requests that may be open at once."),
        click.option(
            "--allow-origin",
            "origins",
            multiple=True,
            metavar="ORIGIN",
            help="Let web pages of this origin ask, such as https://example.org. Repeatable.",
        ),
        click.option(
            "--allow-host",
            "allowed_hosts",
            multiple=True,
            metavar="NAME",
            help="A further name by which clients may call this machine.",
        ),
        click.option("--port", type=int, help="Port to listen on; 0 picks a free one."),
        click.option("--host", help="Address to listen on."),
    ):
        command = option(command)
    return command


def server_settings(options: Mapping[str, Any], choices: ServerChoices) -> ServerSettings:
    """Return the server's settings: the options, else the config file's. Raises ConfigError."""
    from localpaged.server.settings import API_KEY_VARIABLE, ServerSettings

    given = {
        "host": choices.host,
        "port": choices.port,
        "allowed_hosts": choices.allowed_hosts,
        "origins": choices.allowed_origins,
        "max_requests": choices.max_requests,
    }
    given |= {name: options[name] for name in given if options.get(name) not in (None, ())}
    key = os.environ.get(API_KEY_VARIABLE, "").strip()
    if not key and choices.api_key_file is not None:
        key = _key_in(Path(choices.api_key_file))
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return ServerSettings(api_key=key, **chosen)


def _key_in(path: Path) -> str:
    try:
        path = path.expanduser()
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(MAX_KEY_BYTES)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"The file with the API key, {path}, cannot be read: {reason}."
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(
            f"The file with the API key, {path}, can be read by others.", hint=f"chmod 600 {path}"
        )
    key = raw.decode("utf-8", "replace").strip()
    if not key:
        raise ConfigError(f"The file with the API key, {path}, is empty.")
    return key
