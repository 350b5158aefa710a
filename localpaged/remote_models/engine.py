"""RemoteEngine: the one thread in which endpoints are asked, each answer a task of its loop."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from localpaged.engine.events import (
    Event,
    FailEvent,
    FinishEvent,
    LoadEvent,
    LoadFailedEvent,
    ReadyEvent,
    UnloadedEvent,
)
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import Request, RequestId
from localpaged.engine.port import CLOSED, Listener
from localpaged.errors import (
    EndpointError,
    EngineError,
    EngineStopped,
    LocalPagedError,
    ModelNotFound,
)
from localpaged.plain_text import visible

if TYPE_CHECKING:
    import asyncio

    from localpaged.remote.patience import Patience
    from localpaged.remote_models.model import EndpointModel
    from localpaged.remote_models.session import Session

log = logging.getLogger(__name__)

FLUSH_S = 0.02
"""Events wait so long for others: a listener hears of all streams at once, as of a step."""

FindModel = Callable[[str], "EndpointModel | None"]
"""Returns the endpoint that a chat may be answered by, by the name of its model."""


class RemoteEngine:
    """What of an EnginePort requests of texts need. Public methods: any thread; none waits.

    The thread begins with the first request or `load`, and imports what speaks HTTP. Invariant:
    each submitted request ends with exactly one FinishEvent or FailEvent, at the latest at the end.
    """

    def __init__(self, find_model: FindModel, *, patience: Patience | None = None) -> None:
        self._find_model = find_model
        self._patience = patience
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        # the thread's own
        self._sessions: dict[str, Session] = {}
        self._answers: dict[RequestId, tuple[str, asyncio.Task[None]]] = {}
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._outbox: list[Event] = []

    def add_listener(self, listener: Listener) -> None:
        """See EnginePort; called on the remote thread."""
        self._listeners = (*self._listeners, listener)

    def submit(self, request: Request) -> None:
        """Ask the endpoint that `request.model` names. A refusal arrives as FailEvent."""
        self._call(lambda: self._begin(request), otherwise=request)

    def cancel(self, request_id: RequestId) -> None:
        """Close a request's connection at once; unknown or finished ids are ignored."""
        self._call(lambda: self._cancel(request_id))

    def load(self, name: str, *, is_default: bool = False) -> None:
        """Look whether an endpoint answers and has its model; nothing to do where that is known.

        A default one is ready in any case: each request tries anew, and what is wrong is told.
        """
        self._call(lambda: self._check(name, is_default))

    def unload(self, name: str) -> None:
        """End the connections of an endpoint; its requests fail, and UnloadedEvent follows."""
        self._call(lambda: self._leave(name))

    def close(self) -> None:
        """End every request and the thread. A second call does nothing."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and not was_closed:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    # any thread

    def _call(self, deed: Callable[[], None], *, otherwise: Request | None = None) -> None:
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._started().call_soon_threadsafe(deed)
        if is_closed and otherwise is not None:
            self._tell((FailEvent(otherwise.id, EngineStopped(CLOSED)),))

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run, args=(self._loop,), name="remote", daemon=True
            )
            self._thread.start()
        return self._loop

    def _tell(self, events: tuple[Event, ...]) -> None:
        for listener in self._listeners:
            try:
                listener(events)
            except Exception:  # a broken listener must not stop the others
                log.exception("a listener failed")

    # the remote thread

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._end())
        finally:
            self._flush()
            loop.close()

    async def _end(self) -> None:
        """Cancel what runs; requests end as they do when the engine in this process is closed."""
        import asyncio

        open_ids = list(self._answers)
        tasks = [task for _, task in self._answers.values()] + list(self._checks.values())
        self._answers.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in self._sessions.values():
            await session.close()
        error = EngineStopped(CLOSED)
        self._outbox += [FailEvent(request_id, error) for request_id in open_ids]

    def _session(self, name: str) -> Session:
        if name not in self._sessions:
            # late: only who asks an endpoint pays for what speaks HTTP
            from localpaged.remote_models.session import Session

            model = self._find_model(name)
            if model is None:
                raise ModelNotFound(f"There is no endpoint {visible(name)!r}.")
            self._sessions[name] = Session(model, patience=self._patience)
        return self._sessions[name]

    def _begin(self, request: Request) -> None:
        try:
            session = self._session(request.model)
        except LocalPagedError as error:
            self._emit(FailEvent(request.id, error))
            return
        task = self._task(self._answer(session, request))
        self._answers[request.id] = (request.model, task)
        # one that is cancelled before it begins runs none of its own code
        task.add_done_callback(lambda _: self._done(request.id))

    async def _answer(self, session: Session, request: Request) -> None:
        from asyncio import CancelledError

        end: Event = FinishEvent(request.id, FinishReason.CANCELLED, None)
        try:
            async with aclosing(session.answer(request)) as events:
                async for event in events:
                    if isinstance(event, (FinishEvent, FailEvent)):
                        end = event
                    else:
                        self._emit(event)
        except CancelledError:
            pass  # its connection is closed, and that is its end
        except Exception as error:  # whatever a server can cause: the others go on
            end = FailEvent(request.id, _unexpected(session.model, error))
        # what was closed or unloaded meanwhile was told by who did that
        if self._answers.pop(request.id, None) is not None:
            self._emit(end)

    def _done(self, request_id: RequestId) -> None:
        if self._answers.pop(request_id, None) is not None:
            self._emit(FinishEvent(request_id, FinishReason.CANCELLED, None))

    def _cancel(self, request_id: RequestId) -> None:
        if (found := self._answers.get(request_id)) is not None:
            found[1].cancel()

    def _check(self, name: str, is_default: bool) -> None:
        if name in self._checks:
            return
        try:
            session = self._session(name)
        except LocalPagedError as error:
            self._emit(LoadFailedEvent(name, error))
            return
        self._checks[name] = self._task(self._checked(session, name, is_default))

    async def _checked(self, session: Session, name: str, is_default: bool) -> None:
        started_s = time.perf_counter()
        host = session.model.endpoint.host
        self._emit(LoadEvent(f"Asking {visible(host)}", model_name="" if is_default else name))
        failure: LocalPagedError | None = None
        try:
            await session.known()
        except LocalPagedError as error:
            failure = error
        except Exception as error:  # as above
            failure = _unexpected(session.model, error)
        if failure is None or is_default:
            seconds = time.perf_counter() - started_s
            self._emit(
                ReadyEvent(
                    *(name, host, "endpoint", session.model.context_length, seconds),
                    is_further=not is_default,
                    is_endpoint=True,
                    can_continue=session.model.abilities.can_continue,
                )
            )
        if failure is not None:
            # the next request, or load, asks again
            del self._checks[name]
            self._emit(LoadFailedEvent(name, failure))

    def _leave(self, name: str) -> None:
        if (check := self._checks.pop(name, None)) is not None:
            check.cancel()
        for request_id, (model, task) in list(self._answers.items()):
            if model == name:
                del self._answers[request_id]
                task.cancel()
                error = EngineError(f"{visible(name)} was unloaded.")
                self._emit(FailEvent(request_id, error))
        if (session := self._sessions.pop(name, None)) is not None:
            self._checks[f"closing {name}"] = self._task(self._closed(session, name))
        self._emit(UnloadedEvent(name))

    async def _closed(self, session: Session, name: str) -> None:
        await session.close()
        self._checks.pop(f"closing {name}", None)

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._loop is not None, "there is no loop"
        return self._loop.create_task(work)

    def _emit(self, event: Event) -> None:
        assert self._loop is not None, "there is no loop"
        if not self._outbox:
            self._loop.call_later(FLUSH_S, self._flush)
        self._outbox.append(event)

    def _flush(self) -> None:
        events, self._outbox = tuple(self._outbox), []
        if events:
            self._tell(events)


def _unexpected(model: EndpointModel, error: Exception) -> EndpointError:
    """Log what nobody foresaw, without the key that may be in its text."""
    from localpaged.remote.keys import key_of, without_key

    try:
        key = key_of(model.endpoint)
    except LocalPagedError:
        key = ""
    told = without_key("".join(traceback.format_exception(error)), key)
    log.error("asking %s failed: %s", visible(model.name), told)
    return EndpointError(f"{visible(model.name)}: asking failed: {type(error).__name__}.")
