"""`localpaged chat`: the terminal UI."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from localpaged.cli.options import engine_options, settings_from
from localpaged.config_file import read_config
from localpaged.errors import ConfigError

if TYPE_CHECKING:
    from localpaged.chat.publisher import Subscriber
    from localpaged.chat.service import ChatService


@click.command()
@click.option("--ascii", "is_ascii", is_flag=True, help="Draw with ASCII characters only.")
@click.option(
    "--serve",
    "address",
    is_flag=False,
    flag_value="",
    metavar="[HOST:PORT]",
    help="Serve the engine over HTTP as well; see `localpaged serve`.",
)
@engine_options
def chat(is_ascii: bool, address: str | None, **options: Any) -> int:
    """Open the chat: many chats at once, live KV memory."""
    config = read_config()
    settings = settings_from(options, config)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "The chat needs a terminal.",
            hint='To ask one question from a script or a pipe: localpaged ask "…"',
        )
    if address is not None:
        from localpaged.cli.serving import run_served_chat

        return run_served_chat(address, settings, is_ascii=is_ascii, config=config)
    from localpaged.tui.terminal import run_chat

    def open_chats(subscriber: Subscriber) -> ChatService:
        # only when the first picture stands: what is imported here takes longer than that
        from localpaged.wiring import open_service

        return open_service(settings, subscriber=subscriber)

    return run_chat(open_chats, is_ascii=is_ascii, config=config)
