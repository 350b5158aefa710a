"""`localpaged ask`: one question, one answer, fit for pipes."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from functools import partial
from typing import Any

from localpaged.chat.events import (
    ChatEvent,
    ModelLoading,
    SavingFailed,
    SavingRecovered,
    TurnCacheReport,
    TurnEnded,
    TurnPrefill,
    TurnText,
)
from localpaged.chat.sampling_options import with_overrides
from localpaged.chat.service import ChatService
from localpaged.cli.answer import Answer, JsonAnswer, TextAnswer
from localpaged.cli.errors import tell
from localpaged.cli.input import Interrupt, loading_line, question_text
from localpaged.cli.model_choice import check_model
from localpaged.cli.options import settings_from
from localpaged.cli.sampling import overrides_from
from localpaged.cli.second_engine import shortage
from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import ChatError, ConfigError, LocalPagedError, PromptEndless, PromptTooLong
from localpaged.store.rows import Chat, Turn

LOOPED = "--no-stop-loops lets it go on; --temperature 0.7 or --frequency-penalty 0.5 may help."
CUT = "Ask for a shorter answer, or for the rest with --continue in a larger --context."
TOO_LONG = (
    "Ask without --continue, give a larger --context, or open the chat in `localpaged chat`: it "
    "goes on without its oldest messages, or with a summary of them (/context)."
)


def run_ask(question: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Answer a question on stdout; return the exit code. Raises LocalPagedError."""
    asking = _Asking(JsonAnswer() if options["is_json"] else TextAnswer())
    try:
        exit_code = asking.run(question, options)
    except Exception as error:
        asking.answer.end(asking.ended, error)
        raise
    asking.answer.end(asking.ended, None)
    ended = asking.ended
    if ended is not None and ended.finish_reason is FinishReason.REPEATED:
        tell("The answer only repeated itself, so it was ended.", hint=LOOPED)
    is_cut = ended is not None and ended.finish_reason is FinishReason.LENGTH
    if is_cut and ended is not None and options["max_tokens"] is None:
        if asking.is_by_endpoint:
            # its context was full, or it sets limits of its own
            tell("The answer was cut off by its server.", hint="Ask for the rest with --continue.")
            return exit_code
        usage = ended.usage
        used = 0 if usage is None else usage.prompt_tokens + usage.completion_tokens
        tell(
            f"The answer was cut off: question and answer fill the context, {used:,} tokens.",
            hint=CUT,
        )
    return exit_code


def _with_ways_on(error: LocalPagedError, options: Mapping[str, Any]) -> LocalPagedError:
    """Tell what to do about a chat that has grown too long; its question is kept."""
    is_too_long = isinstance(error, PromptTooLong) and not isinstance(error, PromptEndless)
    if options["is_continued"] and is_too_long:
        return PromptTooLong(error.message, hint=TOO_LONG)
    return error


class _Asking:
    """One question on its way through the service. Main thread; events arrive through a queue."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.ended: TurnEnded | None = None
        self.is_by_endpoint = False
        self._has_begun = False
        self._saving_error: LocalPagedError | None = None
        # None: a signal has arrived.
        self._events: queue.SimpleQueue[ChatEvent | None] = queue.SimpleQueue()

    def run(self, question: tuple[str, ...], options: Mapping[str, Any]) -> int:
        """Return the exit code; raises whatever kept the question from an answer that is saved."""
        text = question_text(question, example='localpaged ask "Why is the sky blue?"')
        if options["is_continued"] and options["system"]:
            raise ConfigError(
                "--system begins a new chat; --continue goes on with the last one.",
                hint="Use one of the two.",
            )
        settings = settings_from(options)
        overrides = overrides_from(options)
        with_overrides(settings.sampling, overrides)
        # A model that is not there must not leave a chat behind.
        check_model(settings.model, settings)
        # Late: the engine's thread should begin to import torch only when the input is fine.
        from localpaged.wiring import open_service

        with Interrupt() as interrupt:
            service = open_service(settings, command="ask")
            try:
                # Before anything is saved: it is told only once that saving fails.
                service.subscribe(self._receive)
                chat = _chat(service, options)
                self.is_by_endpoint = service.abilities(chat.model).is_remote
                sampling = with_overrides(service.sampling_of(chat), overrides)
                turn = service.send(chat.id, text, sampling=sampling)
                self.answer.begin(turn)
                interrupt.call(partial(self._stop, service, turn))
                self._wait_for_end(turn)
                if not self._has_begun and not options["is_continued"]:
                    # What opens next must not open on a question that nothing read.
                    service.delete(chat.id)
            finally:
                service.close()
        self._take_rest(turn)
        if interrupt.exit_code is not None:
            return interrupt.exit_code
        if self.ended is not None and self.ended.error is not None:
            raise _with_ways_on(self.ended.error, options)
        return 0

    def _receive(self, events: tuple[ChatEvent, ...]) -> None:
        for event in events:
            self._events.put(event)

    def _stop(self, service: ChatService, turn: Turn) -> None:
        service.stop(turn.id)
        self._events.put(None)

    def _wait_for_end(self, turn: Turn) -> None:
        while self.ended is None:
            event = self._events.get()
            if event is not None:
                self._take(event, turn)
            elif not self._has_begun:
                # The engine hears of it when the model is loaded: closing it is faster.
                return

    def _take_rest(self, turn: Turn) -> None:
        """Take what closing the service has told; it has tried for a last time to save."""
        while not self._events.empty():
            if (event := self._events.get()) is not None:
                self._take(event, turn)
        if self._saving_error is not None:
            raise self._saving_error

    def _take(self, event: ChatEvent, turn: Turn) -> None:
        match event:
            case ModelLoading():
                if told := shortage(event.event):
                    self.answer.note(told)
                self.answer.status(loading_line(event))
            case TurnPrefill() if event.turn_id == turn.id:
                self._has_begun = True
                # an endpoint does not tell how far it is
                done = f" {event.computed_tokens:,}/{event.prompt_tokens:,} tokens"
                self.answer.status(f"reading{done if event.prompt_tokens else ' the question'}")
            case TurnCacheReport() if event.turn_id == turn.id:
                self.answer.explain(event.report)
            case TurnText() if event.turn_id == turn.id:
                self._has_begun = True
                self.answer.add(event.text, event.part)
            case TurnEnded() if event.turn_id == turn.id:
                self.ended = event
            case SavingFailed() if not self._has_begun:
                # No model runs before the question is saved, and that may never be.
                raise event.error
            case SavingFailed():
                self._saving_error = event.error
            case SavingRecovered():
                self._saving_error = None


def _chat(service: ChatService, options: Mapping[str, Any]) -> Chat:
    if not options["is_continued"]:
        return service.new_chat(system=options["system"] or "")
    chat = service.latest_chat()
    if chat is None:
        raise ChatError("There is no chat to continue.", hint="Ask without --continue first.")
    return chat
