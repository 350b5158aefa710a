"""`localpaged serve`: opens the engine, tells how it loads, answers until a signal comes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from localpaged.chat.events import ChatEvent, ModelFailed, ModelLoading, ModelReady
from localpaged.cli.errors import tell
from localpaged.cli.input import loading_line
from localpaged.cli.model_choice import check_model
from localpaged.cli.options import settings_from
from localpaged.cli.server_options import server_settings
from localpaged.config_file import read_config
from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible
from localpaged.server.listener import HttpServer
from localpaged.server.settings import address

if TYPE_CHECKING:
    from localpaged.chat.models import ModelShelf
    from localpaged.chat.publisher import Subscriber
    from localpaged.chat.service import ChatService
    from localpaged.config import Settings
    from localpaged.config_file import ConfigFile
    from localpaged.engine.port import EnginePort
    from localpaged.prompt import ChatModel
    from localpaged.tui.app import LocalPagedApp


def run_serve(options: Mapping[str, Any]) -> int:
    """Serve until a signal comes; return the exit code. Raises LocalPagedError."""
    config = read_config()
    settings = settings_from(options, config)
    check_model(settings.model, settings)
    server = HttpServer(server_settings(options, config.server), settings.sampling)
    try:
        telling = _Telling(server)
        # Late: the engine's thread should begin to import torch only when all else is fine.
        from localpaged.wiring import open_service

        service = open_service(
            settings, subscriber=telling.receive, command="serve", share=server.attach
        )
        try:
            server.run()
        finally:
            telling.is_ending = True
            service.close()
    finally:
        server.close()
    if telling.failure is not None:
        raise telling.failure
    return 0


def run_served_chat(
    address_text: str, settings: Settings, *, is_ascii: bool, config: ConfigFile
) -> int:
    """Run the chat and a server over one engine, which ends with the chat; return the exit code.

    `address_text` is HOST:PORT, or empty for that of the config file. Raises LocalPagedError.
    """
    given: dict[str, Any] = {}
    if address_text:
        given["host"], given["port"] = address(address_text)
    server = HttpServer(server_settings(given, config.server), settings.sampling)

    def share(engine: EnginePort, default: Future[ChatModel], shelf: ModelShelf) -> None:
        server.attach(engine, default, shelf)
        server.start()

    def open_chats(subscriber: Subscriber) -> ChatService:
        # only when the first picture stands: what is imported here takes longer than that
        from localpaged.wiring import open_service

        return open_service(settings, subscriber=subscriber, share=share)

    def tell_address(app: LocalPagedApp) -> None:
        app.workspace.engine.serving = server.short_address

    from localpaged.tui.terminal import run_chat

    try:
        return run_chat(open_chats, is_ascii=is_ascii, config=config, first=tell_address)
    finally:
        server.close()


class _Telling:
    """Says on stderr how the model loads, and where it is served. Engine's thread.

    A model that is ended while it loads, as the server `is_ending`, has not failed.
    """

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self.failure: LocalPagedError | None = None
        self.is_ending = False

    def receive(self, events: tuple[ChatEvent, ...]) -> None:
        """Take what the engine tells."""
        for event in events:
            match event:
                case ModelLoading():
                    self._status(loading_line(event))
                case ModelReady() if not event.model_name:
                    self._status("")
                    name = event.event.model_name
                    tell(f"{name} is served on http://{self._server.address}/v1 (Ctrl+C ends it).")
                case ModelFailed() if not event.model_name:
                    self._status("")
                    if not self.is_ending:
                        self.failure = event.error
                        self._server.stop()

    def _status(self, line: str) -> None:
        if not sys.stderr.isatty():
            return
        print(f"\r\x1b[K{visible(line)}", end="", file=sys.stderr, flush=True)
