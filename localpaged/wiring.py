"""Composition root: store, model, engine and chat service of one run. No logic."""

from __future__ import annotations

from functools import partial

from localpaged.chat.publisher import Subscriber
from localpaged.chat.service import ChatService
from localpaged.config import Settings
from localpaged.engine.engine import Engine, LoadCore
from localpaged.engine_factory import give_back_memory, load_core
from localpaged.model_shelf import Shelf
from localpaged.store.store import Store


def open_service(settings: Settings, *, subscriber: Subscriber | None = None) -> ChatService:
    """Open the history and begin to load the model; returns before it is loaded.

    `subscriber` gets every event from the first on.
    Raises StoreError. A model that cannot be used is told by events, as is loading.
    """
    store = Store.open()
    shelf = Shelf(settings.model)

    def loader_of(name: str) -> LoadCore:
        return partial(load_core, partial(shelf.opened, name), settings)

    engine = Engine(
        partial(load_core, shelf.default.opened.result, settings),
        loader_of,
        after_unload=give_back_memory,
    )
    service = ChatService(
        store=store,
        engine=engine,
        model=shelf.default.chat,
        shelf=shelf,
        sampling=settings.sampling,
    )
    if subscriber is not None:
        service.subscribe(subscriber)
    shelf.open_default()
    engine.start()
    return service
