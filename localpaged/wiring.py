"""Composition root: store, model, engine and chat service of one run. No logic."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial

from localpaged.chat.publisher import Subscriber
from localpaged.chat.service import ChatService
from localpaged.config import Settings
from localpaged.engine.engine import Engine
from localpaged.engine_factory import load_core
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import OpenedModel
from localpaged.prompt import ChatModel
from localpaged.store.store import Store


def open_service(settings: Settings, *, subscriber: Subscriber | None = None) -> ChatService:
    """Open the history and begin to load the model; returns before it is loaded.

    `subscriber` gets every event from the first on.
    Raises StoreError. A model that cannot be used is told by events, as is loading.
    """
    store = Store.open()
    opened: Future[OpenedModel] = Future()
    chat_model: Future[ChatModel] = Future()
    engine = Engine(partial(load_core, opened.result, settings))
    service = ChatService(store=store, engine=engine, model=chat_model)
    if subscriber is not None:
        service.subscribe(subscriber)
    threading.Thread(
        target=_open, args=(settings.model, opened, chat_model), name="open-model", daemon=True
    ).start()
    engine.start()
    return service


def _open(name: str, opened: Future[OpenedModel], chat_model: Future[ChatModel]) -> None:
    """Open the model beside torch's import; both wait for the disk more than for each other."""
    try:
        model = open_model(name)
    except BaseException as error:
        opened.set_exception(error)
        chat_model.set_exception(error)
    else:
        opened.set_result(model)
        chat_model.set_result(model.chat)
