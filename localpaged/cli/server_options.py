"""Options of the HTTP server, and the settings made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from localpaged.server.settings import ServerSettings

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
            help="Let web pages from there ask, as https://example.org; several times for several.",
        ),
        click.option(
            "--allow-host",
            "allowed_hosts",
            multiple=True,
            metavar="NAME",
            help="A further name by which clients may call this machine.",
        ),
        click.option("--port", type=int, help="Port to listen on; 0 takes any that is free."),
        click.option("--host", help="Address to listen on."),
    ):
        command = option(command)
    return command


def server_settings(options: Mapping[str, Any]) -> ServerSettings:
    """Return the server's settings; what was not given is left as it is. Raises ConfigError."""
    from localpaged.server.settings import API_KEY_VARIABLE, ServerSettings

    names = ("host", "port", "allowed_hosts", "origins", "max_requests")
    given = {name: options[name] for name in names if options.get(name) not in (None, ())}
    return ServerSettings(api_key=os.environ.get(API_KEY_VARIABLE, "").strip(), **given)
