"""What the stats thread looks at: the chat service of this program and its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from localpaged.chat.events import (
    ChatEvent,
    ModelFailed,
    ModelLoading,
    ModelReady,
    ModelUnloaded,
)
from localpaged.chat.models import name_of
from localpaged.chat.service import ChatService
from localpaged.engine.inspection import Inspection
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import LocalPagedError
from localpaged.store.store import Store


class Source(Protocol):
    """What there is to tell. Asked by the stats thread; nothing waits but for a quick read."""

    def models(self) -> Sequence[str]:
        """Return what the engine calls the loaded models, the default one, "", first."""

    def loading(self) -> Sequence[str]:
        """Return the names of the models that load."""

    def snapshot(self, model: str) -> EngineSnapshot:
        """Return the latest picture of a model."""

    def inspect(self, model: str) -> Future[Inspection]:
        """Have the engine look at every block of a model."""

    def titles(self, chat_ids: Iterable[str]) -> Mapping[str, str]:
        """Return the titles of chats, as far as there are such chats."""


class ServiceSource:
    """A Source in front of a ChatService. Events may come on any thread, questions from one."""

    def __init__(self, service: ChatService, store: Store, *, default_model: str) -> None:
        """`default_model` is what was asked for, by name or path."""
        self._service = service
        self._store = store
        self._default_name = name_of(default_model)
        self._is_ready: dict[str, bool] = {}  # False while it loads
        self._titles: dict[str, str] = {}
        self._titles_version: int | None = None
        service.subscribe(self._receive)

    def models(self) -> Sequence[str]:
        """See Source."""
        ready = [name for name, is_ready in list(self._is_ready.items()) if is_ready]
        return sorted(ready, key=bool)

    def loading(self) -> Sequence[str]:
        """See Source."""
        states = list(self._is_ready.items())
        return [name or self._default_name for name, is_ready in states if not is_ready]

    def snapshot(self, model: str) -> EngineSnapshot:
        """See Source."""
        return self._service.snapshot(model)

    def inspect(self, model: str) -> Future[Inspection]:
        """See Source."""
        return self._service.memory.inspect(model)

    def titles(self, chat_ids: Iterable[str]) -> Mapping[str, str]:
        """See Source."""
        wanted = set(chat_ids)
        try:
            version = self._store.data_version()
            if version != self._titles_version or not wanted <= self._titles.keys():
                self._titles = {chat_id: self._title(chat_id) for chat_id in wanted}
                self._titles_version = version
        except LocalPagedError:
            # the history is closed or cannot be read, which the chat tells: the rest is still true
            return {}
        return self._titles

    def _title(self, chat_id: str) -> str:
        try:
            return self._store.chat(chat_id).title
        except LocalPagedError:
            return ""  # requests that belong to no chat

    def _receive(self, events: tuple[ChatEvent, ...]) -> None:
        for event in events:
            match event:
                case ModelLoading():
                    self._is_ready.setdefault(event.model_name, False)
                case ModelReady():
                    self._is_ready[event.model_name] = True
                case ModelFailed() | ModelUnloaded():
                    self._is_ready.pop(event.model_name, None)
