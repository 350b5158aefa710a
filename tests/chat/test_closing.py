"""Closing while the engine's thread is busy with something that knows no requests yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from localpaged.chat.service import ChatService
from localpaged.engine.engine import Engine
from localpaged.engine.events import LoadEvent
from localpaged.engine.params import Request
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from testkit.builders import WAIT_S, Recorder, ready_model


class LoadingEngine(Engine):
    """The real thread, with a model that never ends to load."""

    def __init__(self) -> None:
        super().__init__(_load_for_ever)
        self.has_request = threading.Event()

    def submit(self, request: Request) -> None:
        super().submit(request)
        self.has_request.set()


def _load_for_ever(on_load: Callable[[LoadEvent], None]):
    while True:
        on_load(LoadEvent("Reading weights"))
        time.sleep(0.001)


def test_closing_while_the_weights_load_stops_the_answer_and_is_no_failure(database_path: Path):
    engine = LoadingEngine()
    service = ChatService(store=Store.open(database_path), engine=engine, model=ready_model())
    recorder = Recorder()
    service.subscribe(recorder)
    engine.start()
    turn = service.send(service.new_chat().id, "early")
    assert engine.has_request.wait(WAIT_S)
    service.close()
    ended = recorder.wait_ended(turn.id)
    assert (ended.status, ended.error) == (TurnStatus.STOPPED, None)
    store = Store.open(database_path)
    assert store.turn(turn.id).status is TurnStatus.STOPPED
    store.close()
