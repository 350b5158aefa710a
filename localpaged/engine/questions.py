"""Questions to the engine's thread: answered between two steps, or failed with the engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from localpaged.engine.core_set import Core, CoreSet
from localpaged.engine.events import Event
from localpaged.engine.inspection import BlockTokens, Inspection, PinView
from localpaged.errors import EngineError, EngineStopped, LocalPagedError

log = logging.getLogger(__name__)

T = TypeVar("T")
Enqueue = Callable[[Callable[[CoreSet], list[Event]]], None]


class Questions:
    """The futures of questions that are not answered yet. Any thread.

    Invariant: every future that `ask` returned ends; after `fail_all` at once, with EngineStopped.
    Its callbacks run on the engine's thread and may only enqueue.
    """

    def __init__(self, enqueue: Enqueue) -> None:
        self._enqueue = enqueue
        self._lock = threading.Lock()
        self._open: set[Future[Any]] = set()
        self._failure: EngineStopped | None = None

    def ask(self, model: str, question: Callable[[Core], T]) -> Future[T]:
        """Have a model's core, "" being the first one's, answer between two steps."""
        future: Future[T] = Future()
        with self._lock:
            failure = self._failure
            if failure is None:
                self._open.add(future)
                self._enqueue(partial(self._answer, future, model, question))
        if failure is not None:
            future.set_exception(failure)
        return future

    def fail_all(self, error: LocalPagedError) -> None:
        """The engine has ended: so does every question, those still to come included."""
        failure = (
            error
            if isinstance(error, EngineStopped)
            else EngineStopped(f"The engine stopped: {error.message}")
        )
        with self._lock:
            self._failure = self._failure or failure
            unanswered, self._open = self._open, set()
        for future in unanswered:
            if future.set_running_or_notify_cancel():
                future.set_exception(failure)

    def _answer(
        self, future: Future[T], model: str, question: Callable[[Core], T], cores: CoreSet
    ) -> list[Event]:
        with self._lock:
            self._open.discard(future)
        if not future.set_running_or_notify_cancel():
            return []
        try:
            answer = question(cores.core(model))
        except LocalPagedError as error:
            future.set_exception(error)
        except Exception as error:  # who asked is told; the chats have nothing to do with it
            log.exception("a question to the engine failed")
            future.set_exception(EngineError(f"The engine cannot tell: {error!r}."))
        else:
            future.set_result(answer)
        return []


class MemoryQuestions:
    """What EnginePort lets ask about KV memory, and have done with it. Any thread."""

    def __init__(self, enqueue: Enqueue) -> None:
        self._questions = Questions(enqueue)

    def inspect(self, model: str = "") -> Future[Inspection]:
        """See EnginePort."""
        return self._questions.ask(model, lambda core: core.inspect())

    def block_tokens(self, block: int, model: str = "") -> Future[BlockTokens | None]:
        """See EnginePort."""
        return self._questions.ask(model, lambda core: core.block_tokens(block))

    def pin(self, key: str, token_ids: tuple[int, ...], model: str = "") -> Future[PinView]:
        """See EnginePort."""
        return self._questions.ask(model, lambda core: core.pin(key, token_ids))

    def pin_branch(self, key: str, node_id: int, model: str = "") -> Future[PinView]:
        """See EnginePort."""
        return self._questions.ask(model, lambda core: core.pin_branch(key, node_id))

    def unpin(self, key: str, model: str = "") -> Future[PinView]:
        """See EnginePort."""
        return self._questions.ask(model, lambda core: core.unpin(key))

    def evict(self, node_id: int, offset: int = 0, model: str = "") -> Future[int]:
        """See EnginePort."""
        return self._questions.ask(model, lambda core: core.evict(node_id, offset))
