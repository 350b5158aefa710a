"""The life of a turn: queued, durable, placed, rendered, submitted, ended.

Everything that may wait ends up here as a short command: a caller never waits for the disk, the
model or a long prompt, and neither does the engine.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from localpaged.abilities import Ability, abilities_of
from localpaged.chat.branches import end_of_way
from localpaged.chat.cache_report import to_json
from localpaged.chat.cache_watch import CacheWatch
from localpaged.chat.ending import Ending, ended_event, ended_row
from localpaged.chat.errors import NO_PROMPT, chats_are_closed, unexpected
from localpaged.chat.events import ModelFailed, TurnCacheReport, TurnModelMissing
from localpaged.chat.live import LiveTurn, LiveTurns
from localpaged.chat.models import Models, opening_error
from localpaged.chat.prompting import is_begun, make_prompt
from localpaged.chat.publisher import Publisher
from localpaged.chat.thought import reader_of
from localpaged.engine.events import FailEvent, FinishEvent, PrefillEvent, ReadyEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import Request
from localpaged.engine.port import EnginePort
from localpaged.errors import ChatError, EngineStopped, LocalPagedError, ModelNotFound
from localpaged.prompt import ChatModel
from localpaged.store.rows import Turn, TurnStatus
from localpaged.store.store import Store, new_id
from localpaged.store.token_ids import pack
from localpaged.store.turns import place_answer, place_question
from localpaged.store.writes import Write, change_chat

Command = Callable[[], None]

log = logging.getLogger(__name__)


class TurnRunner:
    """Public methods only leave a command; the worker thread runs them one after another.

    Invariant: of each chat at most the first turn in its queue is with the engine.
    """

    def __init__(
        self,
        *,
        store: Store,
        engine: EnginePort,
        models: Models,
        live: LiveTurns,
        publisher: Publisher,
    ) -> None:
        self._store = store
        self._engine = engine
        self._models = models
        self._live = live
        self._publisher = publisher
        self._cache_watch = CacheWatch(store)
        self._queues: dict[str, deque[LiveTurn]] = {}
        self._failure: LocalPagedError | None = None
        self._is_model_known = False
        self._is_stopping = False
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="chat-worker", daemon=True)

    def start(self) -> None:
        """Start the worker and watch for the default model."""
        self._thread.start()
        self._models.default.add_done_callback(lambda _: self._inbox.put(self._model_known))

    def begin(self, live: LiveTurn, saved: Future[None], *, is_next: bool = False) -> None:
        """Answer a turn when its chat's earlier ones are done and it is durable.

        With `is_next` only the first of them, the others come after it.
        """
        self._inbox.put(partial(self._enqueue, live, is_next=is_next))
        saved.add_done_callback(lambda done: self._inbox.put(partial(self._saved, live, done)))

    def stop(self, live: LiveTurn) -> None:
        """End a turn and keep its text."""
        if live.request_id is not None:
            # At once: the worker may be busy with somebody's long prompt.
            self._engine.cancel(live.request_id)
        self._inbox.put(partial(self._stop, live))

    def stop_all(self) -> None:
        """End every turn and begin none."""
        self._inbox.put(self._stop_all)

    def engine_ready(self, event: ReadyEvent) -> None:
        """A model is loaded."""
        self._inbox.put(partial(self._cache_watch.engine_ready, event))

    def prompt_found(self, live: LiveTurn, event: PrefillEvent) -> None:
        """It is known how much of a turn's prompt the engine had in memory."""
        self._inbox.put(partial(self._explain, live, event))

    def repeats_itself(self, live: LiveTurn) -> None:
        """A turn's answer says nothing new any more: it is ended, and can be continued."""
        self.stop(live)

    def request_ended(self, live: LiveTurn, event: FinishEvent | FailEvent) -> None:
        """The engine is done with a turn's request."""
        self._inbox.put(partial(self._request_ended, live, event))

    def engine_failed(self, error: LocalPagedError) -> None:
        """There will be no more answers: all turns fail."""
        self._inbox.put(partial(self._fail_all, error))

    def run_soon(self, command: Command) -> None:
        """Run what may take long, after what was asked for before. Raises ChatError at the end."""
        if not self._thread.is_alive():
            raise chats_are_closed()
        self._inbox.put(command)

    def close(self) -> None:
        """End the turns that the engine never ended, then the worker. The engine must be closed."""
        self._inbox.put(partial(self._end_all, Ending(TurnStatus.STOPPED)))
        self._inbox.put(None)
        self._thread.join()

    # the worker thread

    def _run(self) -> None:
        while (command := self._inbox.get()) is not None:
            try:
                command()
            except Exception:
                # The worker serves all chats: what goes wrong in one must not silence the others.
                log.exception("a command of the chat worker failed")

    def _enqueue(self, live: LiveTurn, *, is_next: bool) -> None:
        waiting = self._queues.setdefault(live.turn.chat_id, deque())
        waiting.insert(min(1, len(waiting)) if is_next else len(waiting), live)
        self._advance(live.turn.chat_id)

    def _saved(self, live: LiveTurn, saved: Future[None]) -> None:
        live.is_durable = True
        error = saved.exception()
        if isinstance(error, LocalPagedError) and live.turn.status.is_open:
            self._end(live, Ending(TurnStatus.ERROR, error=error))
        self._advance(live.turn.chat_id)

    def _model_known(self) -> None:
        self._is_model_known = True
        error = opening_error(self._models.default)
        if error is not None:
            self._fail_all(error)
            return
        for chat_id in list(self._queues):
            self._advance(chat_id)

    def _stop(self, live: LiveTurn) -> None:
        if not live.turn.status.is_open:
            return
        if live.request_id is not None:
            self._engine.cancel(live.request_id)
            if live.model is None or self._models.is_ready(live.model):
                return
            # The engine hears of it when the model is loaded, before it reads anything.
        self._end(live, Ending(TurnStatus.STOPPED))
        self._advance(live.turn.chat_id)

    def _stop_all(self) -> None:
        self._is_stopping = True
        for waiting in list(self._queues.values()):
            for live in reversed(list(waiting)):
                self._stop(live)

    def _explain(self, live: LiveTurn, event: PrefillEvent) -> None:
        assert live.model is not None, "a turn without a model was read"
        if abilities_of(live.model).why_not(Ability.WHY):
            return
        report = self._cache_watch.explain(live, event, live.model)
        live.cache_report = to_json(report)
        self._publisher.publish(TurnCacheReport(live.turn.chat_id, live.turn.id, report))

    def _request_ended(self, live: LiveTurn, event: FinishEvent | FailEvent) -> None:
        if not live.turn.status.is_open:
            return  # stopped while its model loaded
        if self._is_stopping and _is_engine_gone(event):
            # An engine that is closed while its model loads knows no other word for it.
            self._end(live, Ending(TurnStatus.STOPPED))
        elif isinstance(event, FailEvent):
            self._end(live, Ending(TurnStatus.ERROR, error=event.error))
        else:
            is_cancelled = event.reason is FinishReason.CANCELLED
            status = TurnStatus.STOPPED if is_cancelled else TurnStatus.DONE
            is_loop = is_cancelled and live.has_looped
            reason = FinishReason.REPEATED if is_loop else event.reason
            self._end(live, Ending(status, reason=reason, usage=event.usage))
        self._advance(live.turn.chat_id)

    def _fail_all(self, error: LocalPagedError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._publisher.publish(ModelFailed(error))
        self._end_all(Ending(TurnStatus.ERROR, error=error))

    def _end_all(self, ending: Ending) -> None:
        for chat_id in list(self._queues):
            while waiting := self._queues.get(chat_id):
                self._end(waiting[0], ending)
                self._advance(chat_id)

    def _advance(self, chat_id: str) -> None:
        """Bring the chat's first turn as far as it can go, and the next ones after it."""
        waiting = self._queues.get(chat_id, deque())
        while waiting:
            head = waiting[0]
            if head.turn.status.is_open:
                self._try_to_begin(head)
                if waiting and waiting[0] is head:
                    return
            else:
                waiting.popleft()
                self._place(head, head.turn, text="")
                self._live.remove(head)
        self._queues.pop(chat_id, None)

    def _try_to_begin(self, live: LiveTurn) -> None:
        if live.request_id is not None or self._is_stopping:
            return
        if self._failure is not None:
            self._end(live, Ending(TurnStatus.ERROR, error=self._failure))
        elif live.is_durable and self._is_model_known:
            try:
                model = self._model_of(live)
                if model is not None:
                    self._submit(live, model)
            except LocalPagedError as error:
                self._end(live, Ending(TurnStatus.ERROR, error=error))
            except Exception as error:
                failure = unexpected(NO_PROMPT, error)
                self._end(live, Ending(TurnStatus.ERROR, error=failure))

    def _model_of(self, live: LiveTurn) -> ChatModel | None:
        """Return the model that answers a turn; None while it is being opened."""
        chat_id = live.turn.chat_id
        chosen = self._store.chat(chat_id).model
        try:
            if live.opening is None:
                live.opening = self._models.find(chosen)
                if not live.opening.done():
                    live.opening.add_done_callback(
                        lambda _: self._inbox.put(partial(self._advance, chat_id))
                    )
            if not live.opening.done():
                return None
            if (error := opening_error(live.opening)) is not None:
                raise error
            return live.opening.result()
        except ModelNotFound:
            default = self._models.default.result()
            if abilities_of(default).is_remote:
                raise  # what was meant for a model here is sent nowhere
            self._publisher.publish(
                TurnModelMissing(chat_id, live.turn.id, chosen=chosen, default=default.name)
            )
            return default

    def _submit(self, live: LiveTurn, model: ChatModel) -> None:
        chat_id = live.turn.chat_id
        placed = place_question(live.turn, chat_tip=self._tip(live.turn))
        is_continued = is_begun(placed.turn)
        live.model = model
        live.turn = replace(placed.turn, model=model.name)
        if not is_continued:
            live.turn = replace(live.turn, model_fingerprint=model.fingerprint, token_ids=None)
        advance = change_chat(chat_id, tip_hash=live.turn.parent_hash)
        self._store.submit(
            Write(messages=placed.messages, chat_changes=(advance,), turns=(live.turn,))
        )
        live.prompt = make_prompt(self._store, model, placed.turn)
        if is_continued:
            # Whatever ids the answer had, from now on it has those that the engine reads.
            begun_ids = live.prompt.begun_ids
            live.turn = replace(
                live.turn,
                model_fingerprint=model.fingerprint,
                token_ids=None if begun_ids is None else pack(begun_ids),
            )
            self._store.submit(Write(turns=(live.turn,)))
        live.reader = reader_of(model, live.prompt.ids, live.turn, now_s=time.monotonic())
        request = Request(
            new_id(),
            live.prompt.ids,
            live.sampling,
            chat_id=chat_id,
            is_foreground=live.is_foreground,
            model=self._models.engine_name(model),
            is_continuation=is_continued,
            begun_ids=_begun_ids(live) if is_continued else (),
            speculation=live.may_guess,
            messages=live.prompt.texts,
        )
        self._live.add_request(request.id, live)
        self._engine.submit(request)

    def _end(self, live: LiveTurn, ending: Ending) -> None:
        row = ended_row(live, ending, now=time.time())
        event = ended_event(live, ending)
        waiting = self._queues[row.chat_id]
        if waiting[0] is live:
            waiting.popleft()
            live.turn = self._place(live, row, text=row.partial_text)
            self._live.remove(live)
        else:
            # It gets its place in the tree, and leaves, when those before it have theirs.
            live.turn = row
            self._store.submit(Write(turns=(row,)))
        self._publisher.publish(event)

    def _place(self, live: LiveTurn, row: Turn, *, text: str) -> Turn:
        placed = place_answer(row, chat_tip=self._tip(row), text=text)
        tip_hash = placed.turn.tip_hash
        if tip_hash is not None and not self._queues.get(row.chat_id):
            tip_hash = end_of_way(self._store, row.chat_id, tip_hash)
        advance = change_chat(
            row.chat_id, tip_hash=tip_hash, updated_at=row.finished_at or time.time()
        )
        self._store.submit(
            Write(
                messages=placed.messages,
                chat_changes=(advance,),
                turns=(placed.turn,),
                prompts=self._cache_watch.ended(live, placed.turn),
            )
        )
        return placed.turn

    def _tip(self, turn: Turn) -> str | None:
        """Where a waiting question hangs; not needed, and not read, for one that is placed."""
        return None if turn.question is None else self._store.chat(turn.chat_id).tip_hash


def _begun_ids(live: LiveTurn) -> tuple[int, ...]:
    begun_ids = None if live.prompt is None else live.prompt.begun_ids
    if begun_ids is None and live.sampling.grammar is not None:
        raise ChatError(
            "The answer cannot go on in its form: the model's template hides where it began.",
            hint="Ask the question again.",
        )
    return begun_ids or ()


def _is_engine_gone(event: FinishEvent | FailEvent) -> bool:
    return isinstance(event, FailEvent) and isinstance(event.error, EngineStopped)
