"""Composition root: store, model, engine and chat service of one run. No logic."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from localpaged.chat.kept_kv import is_deleted
from localpaged.chat.models import ModelShelf
from localpaged.chat.publisher import Subscriber
from localpaged.chat.service import ChatService
from localpaged.config import Settings
from localpaged.engine.engine import Engine, LoadCore
from localpaged.engine.port import EnginePort
from localpaged.engine_factory import give_back_memory, load_core
from localpaged.errors import ConfigError
from localpaged.load_devices import ThisMachine
from localpaged.model_shelf import Shelf
from localpaged.prompt import ChatModel
from localpaged.remote_models.engine import RemoteEngine
from localpaged.remote_models.routed_engine import RoutedEngine
from localpaged.remote_models.shelf import RemoteShelf, opened
from localpaged.stats.running import tell_stats
from localpaged.store.store import Store

Share = Callable[[EnginePort, Future[ChatModel], ModelShelf], None]
"""Takes this machine's engine, before it loads, its default model and how others are opened."""


def open_service(
    settings: Settings,
    *,
    subscriber: Subscriber | None = None,
    command: str = "chat",
    share: Share | None = None,
) -> ChatService:
    """Open the history and begin to load the model; returns before it is loaded.

    `subscriber` gets every event from the first on; `command` is what stats call this run; whoever
    else uses the engine comes by `share`. Raises StoreError, and ConfigError for an endpoint's
    address that cannot be, or one that is to be shared. A model that cannot be used is told by
    events, as is loading.
    """
    shelf = Shelf(settings.model)
    models = RemoteShelf(shelf, settings.remotes)
    endpoint = models.open_default(settings.model)
    if endpoint is not None and share is not None:
        raise ConfigError(
            "Only models of this machine are served, and the model is an endpoint's.",
            hint="Choose another --model; clients can ask the endpoint itself.",
        )
    store = Store.open()
    load = partial(load_core, is_deleted=partial(is_deleted, store), machine=ThisMachine())

    def loader_of(name: str) -> LoadCore:
        return partial(load, partial(shelf.opened, name), settings)

    local = Engine(
        # with an endpoint to begin with, no model of this machine is loaded before it is asked for
        None if endpoint else partial(load, shelf.default.opened.result, settings),
        loader_of,
        after_unload=give_back_memory,
    )
    engine = RoutedEngine(
        local, RemoteEngine(models.endpoint_of), endpoint_of=models.endpoint_of, default=endpoint
    )
    service = ChatService(
        store=store,
        engine=engine,
        model=opened(endpoint) if endpoint else shelf.default.chat,
        shelf=models,
        sampling=settings.sampling,
    )
    service.memory.kept.bring_back = local.bring_back if settings.kv_disk_bytes else None
    if subscriber is not None:
        service.subscribe(subscriber)
    if share is not None:
        share(local, shelf.default.chat, shelf)
    if endpoint is None:
        shelf.open_default()
    local.start()
    engine.start_default()
    tell_stats(service, store, command=command, default_model=settings.model)
    return service
