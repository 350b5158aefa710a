"""The engine's listener: one for all chats, told apart by request id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from localpaged.chat.events import ChatEvent, ModelLoading, ModelReady, TurnPrefill, TurnText
from localpaged.chat.live import LiveTurn, LiveTurns
from localpaged.chat.publisher import Publisher
from localpaged.engine.events import (
    EngineFailedEvent,
    Event,
    FailEvent,
    FinishEvent,
    LoadEvent,
    PrefillEvent,
    ReadyEvent,
    TokenEvent,
)
from localpaged.errors import LocalPagedError
from localpaged.store.rows import TurnStatus
from localpaged.store.text import storable
from localpaged.store.writer import StoreWriter
from localpaged.store.writes import Write


class Ends(Protocol):
    """Who is told that requests or the engine have ended. Must not wait."""

    def request_ended(self, live: LiveTurn, event: FinishEvent | FailEvent) -> None:
        """The engine is done with a turn's request."""

    def engine_failed(self, error: LocalPagedError) -> None:
        """There will be no more answers."""


class EngineFeed:
    """Appends, enqueues and publishes on the engine's thread; it never waits and reads no disk."""

    def __init__(
        self, *, live: LiveTurns, writer: StoreWriter, publisher: Publisher, ends: Ends
    ) -> None:
        self._live = live
        self._writer = writer
        self._publisher = publisher
        self._ends = ends

    def on_events(self, events: tuple[Event, ...]) -> None:
        """Take the events of one step."""
        told: list[ChatEvent] = []
        ended: list[Callable[[], None]] = []
        for event in events:
            if isinstance(event, LoadEvent):
                told.append(ModelLoading(event))
            elif isinstance(event, ReadyEvent):
                told.append(ModelReady(event))
            elif isinstance(event, EngineFailedEvent):
                ended.append(_call(self._ends.engine_failed, event.error))
            elif (live := self._live.by_request(event.request_id)) is None:
                continue
            elif isinstance(event, (FinishEvent, FailEvent)):
                ended.append(_call(self._ends.request_ended, live, event))
            elif isinstance(event, PrefillEvent):
                told.append(self._prefill(live, event))
            elif isinstance(event, TokenEvent):
                told += self._text(live, event)
        # First the text: the worker may tell of the end at once.
        self._publisher.publish(*told)
        for tell in ended:
            tell()

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
        )

    def _text(self, live: LiveTurn, event: TokenEvent) -> list[ChatEvent]:
        text = storable(event.text)
        piece = live.append(text, event.token_ids)
        self._writer.append_text(live.turn.id, text, piece.token_count, event.token_ids)
        if live.turn.status is not TurnStatus.STREAMING:
            self._change(live, TurnStatus.STREAMING)
        if not text:
            return []
        offset = piece.num_chars - len(text)
        return [TurnText(live.turn.chat_id, live.turn.id, text, piece.token_count, offset)]

    def _change(self, live: LiveTurn, status: TurnStatus) -> None:
        live.turn = replace(live.turn, status=status)
        self._writer.submit(Write(turns=(live.row(),)))


def _call(tell: Callable[..., None], *arguments: object) -> Callable[[], None]:
    return lambda: tell(*arguments)
