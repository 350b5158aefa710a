"""KV of chats in files: brought back when a chat is looked at, deleted with the chat."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from localpaged.chat.models import Models
from localpaged.chat.prompting import chat_prefix
from localpaged.engine.params import CLIENT_PREFIX
from localpaged.errors import LocalPagedError, StoreError
from localpaged.kv_files import users
from localpaged.kv_files.folder import kv_root
from localpaged.prompt import ChatModel
from localpaged.store.store import Store

log = logging.getLogger(__name__)


class BringBack(Protocol):
    """Has the engine restore KV that is likely to be asked for; `Engine.bring_back`."""

    def __call__(self, token_ids: tuple[int, ...], *, chat_id: str, model: str = "") -> None:
        """Ask for it; whether there is anything to restore is found out later."""


class KeptKV:
    """What the chats have to do with KV files. Any thread; disk and templates are the worker's.

    `bring_back` is None where no engine keeps KV in files.
    """

    def __init__(
        self, *, store: Store, models: Models, run_soon: Callable[[Callable[[], None]], None]
    ) -> None:
        """`run_soon` runs on the chat worker's thread what may take long."""
        self.bring_back: BringBack | None = None
        self._store = store
        self._models = models
        self._run_soon = run_soon

    def look_at(self, chat_id: str) -> None:
        """Have a chat's KV brought back before it is asked for, if its model is being opened."""
        if chat_id and self.bring_back is not None:
            self._soon(lambda: self._find_model(chat_id))

    def forget(self, chat_id: str) -> None:
        """Delete a chat's KV files, except for those that other chats use."""

        def delete() -> None:
            try:
                forget(chat_id)
            except LocalPagedError as error:
                log.warning("%s", error.message)

        self._soon(delete)

    def _find_model(self, chat_id: str) -> None:
        try:
            opened = self._models.find(self._store.chat(chat_id).model)
        except LocalPagedError:
            return  # who asks something there is told
        opened.add_done_callback(lambda done: self._soon(lambda: self._ask(chat_id, done)))

    def _ask(self, chat_id: str, opened: Future[ChatModel]) -> None:
        if opened.cancelled() or opened.exception() is not None or self.bring_back is None:
            return
        model = opened.result()
        try:
            ids = chat_prefix(self._store, model, chat_id)
        except LocalPagedError as error:  # an endpoint has no tokens, a template its own mind
            log.debug("nothing is brought back: %s", error.message)
            return
        if ids:
            is_default = model.name == self._models.default_name
            self.bring_back(ids, chat_id=chat_id, model="" if is_default else model.name)

    def _soon(self, command: Callable[[], None]) -> None:
        try:
            self._run_soon(command)
        except LocalPagedError:
            log.debug("the chats are closed")


def forget(chat_id: str) -> None:
    """Delete a chat's KV files, except for those that other chats use. Raises StoreError."""
    try:
        users.forget(kv_root(), chat_id)
    except OSError as error:
        raise StoreError(
            f"The chat's KV files could not be deleted: {error.strerror or error}.",
            hint=f"Delete the folder {kv_root()}: nothing but time is lost with it.",
        ) from error


def is_deleted(store: Store, chat_id: str) -> bool:
    """Whether a chat is deleted; what is no chat of this history is not. A quick read.

    Clients over HTTP count as deleted: nothing of what they ask is saved.
    """
    if chat_id.startswith(CLIENT_PREFIX):
        return True
    try:
        return store.chat(chat_id).deleted_at is not None
    except LocalPagedError:
        return False
