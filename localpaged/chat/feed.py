"""The engine's listener: one for all chats, told apart by request id."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from localpaged.chat.events import (
    ChatEvent,
    ModelFailed,
    ModelLoading,
    ModelReady,
    ModelUnloaded,
    TurnPrefill,
    TurnText,
)
from localpaged.chat.live import LiveTurn, LiveTurns
from localpaged.chat.models import Models
from localpaged.chat.publisher import Publisher
from localpaged.chat.thought import ReadPart
from localpaged.engine.events import (
    EngineEvent,
    EngineFailedEvent,
    Event,
    FailEvent,
    FinishEvent,
    LoadEvent,
    LoadFailedEvent,
    PrefillEvent,
    ReadyEvent,
    RequestEvent,
    TokenEvent,
    UnloadedEvent,
)
from localpaged.errors import LocalPagedError
from localpaged.store.rows import TurnStatus
from localpaged.store.text import storable
from localpaged.store.writer import StoreWriter
from localpaged.store.writes import Write

log = logging.getLogger(__name__)

Tell = Callable[[], None]


class Ends(Protocol):
    """Who is told what has begun and ended. Must not wait."""

    def engine_ready(self, event: ReadyEvent) -> None:
        """A model is loaded."""

    def prompt_found(self, live: LiveTurn, event: PrefillEvent) -> None:
        """It is known how much of a turn's prompt the engine had in memory."""

    def repeats_itself(self, live: LiveTurn) -> None:
        """A turn's answer says nothing new any more."""

    def request_ended(self, live: LiveTurn, event: FinishEvent | FailEvent) -> None:
        """The engine is done with a turn's request."""

    def engine_failed(self, error: LocalPagedError) -> None:
        """There will be no more answers."""


class EngineFeed:
    """Appends, enqueues and publishes on the engine's thread; it never waits and reads no disk."""

    def __init__(
        self,
        *,
        live: LiveTurns,
        models: Models,
        writer: StoreWriter,
        publisher: Publisher,
        ends: Ends,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live = live
        self._models = models
        self._is_default_ready = False
        self._writer = writer
        self._publisher = publisher
        self._ends = ends
        self._clock = clock

    def on_events(self, events: tuple[Event, ...]) -> None:
        """Take the events of one step."""
        told: list[ChatEvent] = []
        for_worker: list[Tell] = []
        for event in events:
            if isinstance(event, EngineEvent):
                self._take_engine(event, told, for_worker)
            elif (live := self._live.by_request(event.request_id)) is not None:
                self._take_request(live, event, told, for_worker)
        # First the text: the worker may tell of the end at once.
        self._publisher.publish(*told)
        for tell in for_worker:
            tell()

    def _take_engine(
        self,
        event: EngineEvent,
        told: list[ChatEvent],
        for_worker: list[Tell],
    ) -> None:
        match event:
            case LoadEvent():
                self._models.note_loading(event.model_name)
                told.append(ModelLoading(event))
            case ReadyEvent():
                # The engine loads the default model before it takes orders for others.
                is_further = event.is_further or self._is_default_ready
                further_name = event.model_name if is_further else ""
                self._is_default_ready = self._is_default_ready or not is_further
                self._models.note_ready(further_name)
                told.append(ModelReady(event, further_name))
                for_worker.append(partial(self._ends.engine_ready, event))
            case LoadFailedEvent():
                log.warning("%s was not loaded: %s", event.model_name, event.error)
                self._models.note_gone(event.model_name)
                told.append(ModelFailed(event.error, event.model_name))
            case UnloadedEvent():
                self._models.note_gone(event.model_name)
                told.append(ModelUnloaded(event.model_name))
            case EngineFailedEvent():
                for_worker.append(partial(self._ends.engine_failed, event.error))

    def _take_request(
        self, live: LiveTurn, event: RequestEvent, told: list[ChatEvent], for_worker: list[Tell]
    ) -> None:
        if isinstance(event, (FinishEvent, FailEvent)):
            told += self._texts(live, live.reader.finish(now_s=self._clock()))
            for_worker.append(partial(self._ends.request_ended, live, event))
        elif isinstance(event, PrefillEvent):
            if live.prefill is None:
                for_worker.append(partial(self._ends.prompt_found, live, event))
            told.append(self._prefill(live, event))
        elif isinstance(event, TokenEvent):
            told += self._text(live, event)
            if live.sampling.stop_loops and not live.has_looped:
                live.has_looped = live.loops.take(event.text)
                if live.has_looped:
                    for_worker.append(partial(self._ends.repeats_itself, live))

    def _prefill(self, live: LiveTurn, event: PrefillEvent) -> ChatEvent:
        live.prefill = event
        if live.turn.status is TurnStatus.QUEUED:
            self._change(live, TurnStatus.PREFILL)
        return TurnPrefill(
            live.turn.chat_id,
            live.turn.id,
            event.cached_tokens,
            event.computed_tokens,
            event.prompt_tokens,
            live.num_begun,
        )

    def _text(self, live: LiveTurn, event: TokenEvent) -> list[ChatEvent]:
        text = storable(event.text)
        piece = live.append(text, event.token_ids)
        live.logprobs += event.logprobs
        self._writer.append_text(live.turn.id, text, piece.token_count, event.token_ids)
        if live.turn.status is not TurnStatus.STREAMING:
            self._change(live, TurnStatus.STREAMING)
        if not text:
            return []
        before = live.reader.thought
        parts = live.reader.take(text, token_count=piece.token_count, now_s=self._clock())
        after = live.reader.thought
        if (before is None) != (after is None) or (before and after and before.end != after.end):
            # How long it took is not in the text, from which all else could be found again.
            self._writer.submit(Write(turns=(live.row(),)))
        return self._texts(live, parts)

    def _texts(self, live: LiveTurn, parts: Sequence[ReadPart]) -> list[ChatEvent]:
        told: list[ChatEvent] = []
        last, thought = live.last, live.reader.thought
        offset = live.reader.position - sum(len(part.text) for part in parts)
        for part, text in parts:
            told.append(
                TurnText(
                    live.turn.chat_id,
                    live.turn.id,
                    text,
                    last.token_count,
                    offset,
                    part,
                    thought,
                )
            )
            offset += len(text)
        return told

    def _change(self, live: LiveTurn, status: TurnStatus) -> None:
        live.turn = replace(live.turn, status=status)
        self._writer.submit(Write(turns=(live.row(),)))
