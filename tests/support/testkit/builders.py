"""Short ways to make histories, chat services and rows for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from localpaged.chat.events import ChatEvent, TurnEnded, TurnText
from localpaged.chat.service import ChatService
from localpaged.prompt import ChatModel
from localpaged.store.database import open_database
from localpaged.store.rows import Chat, Turn, TurnStatus
from localpaged.store.store import Store
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat
from testkit.fake_model import FakeChatModel
from testkit.scripted_engine import ScriptedEngine

WAIT_S = 10.0

T = TypeVar("T")


class Recorder:
    """A subscriber that keeps every event and lets a test wait for one."""

    def __init__(self) -> None:
        self._events: list[ChatEvent] = []
        self._arrived = threading.Condition()

    def __call__(self, events: tuple[ChatEvent, ...]) -> None:
        with self._arrived:
            self._events += events
            self._arrived.notify_all()

    @property
    def events(self) -> Sequence[ChatEvent]:
        """All events so far."""
        with self._arrived:
            return tuple(self._events)

    def of(self, kind: type[T]) -> Sequence[T]:
        """All events of one type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def text(self, turn_id: str) -> str:
        """What the events say the answer is."""
        return "".join(event.text for event in self.of(TurnText) if event.turn_id == turn_id)

    def wait(self, is_there: Callable[[], bool], *, timeout_s: float = WAIT_S) -> None:
        """Wait until `is_there`; looked at whenever events arrive."""
        with self._arrived:
            assert self._arrived.wait_for(is_there, timeout_s), f"only got {self._events}"

    def wait_for(self, kind: type[T], *, count: int = 1) -> T:
        """Wait for the `count`-th event of a type."""
        self.wait(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    def wait_ended(self, turn_id: str) -> TurnEnded:
        """Wait for the end of a turn."""
        self.wait(lambda: any(end.turn_id == turn_id for end in self.of(TurnEnded)))
        return next(end for end in self.of(TurnEnded) if end.turn_id == turn_id)


def ready_model(model: ChatModel | None = None) -> Future[ChatModel]:
    """Return a model that is loaded already."""
    future: Future[ChatModel] = Future()
    future.set_result(model or FakeChatModel())
    return future


def make_service(
    path: Path,
    *,
    engine: ScriptedEngine | None = None,
    model: Future[ChatModel] | None = None,
    **options: Any,
) -> tuple[ChatService, ScriptedEngine, Recorder]:
    """Return a service over a history at `path` and a scripted engine that is loaded.

    `options` are the service's own.
    """
    engine = engine or ScriptedEngine()
    service = ChatService(
        store=Store.open(path), engine=engine, model=model or ready_model(), **options
    )
    recorder = Recorder()
    service.subscribe(recorder)
    engine.load()
    return service, engine, recorder


def texts(service: ChatService, chat_id: str) -> list[str | None]:
    """The texts of a chat's lines, as the history has them; None where none is saved yet."""
    return [line.message.text if line.message else None for line in service.transcript(chat_id)]


def make_limited_store(path: Path, *, spare_pages: int) -> tuple[Store, Callable[[], None]]:
    """Return a history on a disk with room for a few pages more, and a way to make room."""
    db, path = open_database(path)
    (num_pages,) = db.execute("PRAGMA page_count").fetchone()
    store = Store(db, path)
    store.writer.flush()
    db.execute(f"PRAGMA max_page_count = {num_pages + spare_pages}")

    def make_room() -> None:
        db.execute("PRAGMA max_page_count = 1000000")

    return store, make_room


def make_chat(store: Store, *, chat_id: str = "chat", texts: Sequence[str] = ()) -> Chat:
    """Save a chat whose messages are `texts`, the user's first."""
    chat = Chat(chat_id, "title", None, "fake-model", "", 1.0, 1.0)
    messages = []
    tip_hash = None
    for index, text in enumerate(texts):
        messages.append(make_message(tip_hash, ("user", "assistant")[index % 2], text))
        tip_hash = messages[-1].hash
    change = change_chat(chat_id, tip_hash=tip_hash)
    write = Write(messages=messages, new_chats=(chat,), chat_changes=(change,))
    store.submit(write).result(WAIT_S)
    return store.chat(chat_id)


def make_turn(
    *,
    turn_id: str = "turn",
    chat_id: str = "chat",
    parent_hash: str | None = None,
    tip_hash: str | None = None,
    status: TurnStatus = TurnStatus.QUEUED,
    partial_text: str = "",
    question: str | None = None,
    created_at: float = 2.0,
) -> Turn:
    """Return a turn with the columns that matter to a test."""
    return Turn(
        turn_id,
        chat_id,
        parent_hash,
        tip_hash,
        status,
        "fake-model",
        partial_text=partial_text,
        question=question,
        created_at=created_at,
    )
