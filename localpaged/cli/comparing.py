"""`localpaged compare`: one prompt, several samples and models, fit for pipes."""

from __future__ import annotations

import queue
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from localpaged.chat.compare import BranchSpec, Comparison, make_specs
from localpaged.chat.events import (
    ChatEvent,
    ModelLoading,
    ModelReady,
    SavingFailed,
    SavingRecovered,
    TurnEnded,
    TurnPrefill,
    TurnText,
)
from localpaged.chat.sampling_options import with_overrides
from localpaged.chat.service import ChatService
from localpaged.cli.compare_output import Compared, JsonOutput, Output, TextOutput
from localpaged.cli.input import Interrupt, loading_line, question_text
from localpaged.cli.model_choice import check_model, kept_choice
from localpaged.cli.options import settings_from
from localpaged.config import Settings
from localpaged.config_file import read_config
from localpaged.errors import LocalPagedError

if TYPE_CHECKING:
    from localpaged.chat.publisher import Subscriber
    from localpaged.tui.app import LocalPagedApp

EXAMPLE = 'localpaged compare "Why is the sky blue?" -n 3'
SAMPLING = ("top_k", "top_p", "min_p", "max_tokens", "stop_loops")


def run_compare(prompt: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Answer a prompt several times; return the exit code. Raises LocalPagedError.

    On a terminal the compare screen shows it, unless something else was asked for.
    """
    is_printed = options["is_json"] or options["is_plain"]
    if not is_printed and _has_screen():
        return _show(prompt, options)
    output: Output = JsonOutput() if options["is_json"] else TextOutput()
    comparing = _Comparing(output)
    try:
        exit_code = comparing.run(prompt, options)
    except Exception as error:
        output.end(comparing.answers, error, comparing.compare_id)
        raise
    output.end(comparing.answers, None, comparing.compare_id)
    if exit_code == 0 and (failed := comparing.failure()) is not None:
        raise failed
    return exit_code


def _has_screen() -> bool:
    """Whether there is a terminal that the answers can be drawn on."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    from localpaged.tui.terminal import can_place_cursor

    return can_place_cursor()


def _show(prompt: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Open the chat with the compare over it."""
    text = question_text(prompt, example=EXAMPLE)
    specs, settings = _asked(options)
    from localpaged.tui.terminal import run_chat

    def open_chats(subscriber: Subscriber) -> ChatService:
        # only when the first picture stands: what is imported here takes longer than that
        from localpaged.wiring import open_service

        return open_service(settings, subscriber=subscriber, command="compare")

    def begin(app: LocalPagedApp) -> None:
        app.commands.compare.show_new(text, specs, system=options["system"] or "")

    return run_chat(open_chats, config=read_config(), first=begin)


class _Comparing:
    """One compare on its way through the service. Main thread; events arrive through a queue."""

    def __init__(self, output: Output) -> None:
        self.answers: list[Compared] = []
        self.compare_id = ""
        self._output = output
        self._by_turn: dict[str, Compared] = {}
        self._models = {""}
        self._has_begun = False
        self._saving_error: LocalPagedError | None = None
        # None: a signal has arrived.
        self._events: queue.SimpleQueue[ChatEvent | None] = queue.SimpleQueue()

    def run(self, prompt: tuple[str, ...], options: Mapping[str, Any]) -> int:
        """Return the exit code; raises whatever kept the prompt from answers that are saved."""
        text = question_text(prompt, example=EXAMPLE)
        specs, settings = _asked(options)
        # Late: the engine's thread should begin to import torch only when the input is fine.
        from localpaged.wiring import open_service

        with Interrupt() as interrupt:
            service = open_service(settings, command="compare")
            try:
                # Before anything is saved: it is told only once that saving fails.
                service.subscribe(self._receive)
                begun = service.compares.start(text, specs, system=options["system"] or "")
                self._begin(begun, settings)
                interrupt.call(partial(self._stop, service))
                self._wait_for_end(service)
            finally:
                service.close()
        self._take_rest()
        return interrupt.exit_code or 0

    def failure(self) -> LocalPagedError | None:
        """Return why the first of the answers that failed did."""
        errors = [a.ended.error for a in self.answers if a.ended is not None and a.ended.error]
        return errors[0] if errors else None

    def _begin(self, begun: Comparison, settings: Settings) -> None:
        self.compare_id = begun.compare.id
        for branch in begun.branches:
            turn = branch.exchanges[-1].turn
            assert turn is not None, "a branch begins with a turn"
            model = check_model(branch.chat.model or settings.model, settings)
            self.answers.append(Compared(len(self.answers) + 1, model, turn))
            self._by_turn[turn.id] = self.answers[-1]

    def _receive(self, events: tuple[ChatEvent, ...]) -> None:
        for event in events:
            self._events.put(event)

    def _stop(self, service: ChatService) -> None:
        for turn_id in self._by_turn:
            service.stop(turn_id)
        self._events.put(None)

    def _wait_for_end(self, service: ChatService) -> None:
        while any(answer.ended is None for answer in self.answers):
            event = self._events.get()
            if event is not None:
                self._take(event, service)
            elif not self._has_begun:
                # The engine hears of it when the model is loaded: closing it is faster.
                return

    def _take_rest(self) -> None:
        """Take what closing the service has told; it has tried for a last time to save."""
        while not self._events.empty():
            if (event := self._events.get()) is not None:
                self._take(event, None)
        if self._saving_error is not None:
            raise self._saving_error

    def _take(self, event: ChatEvent, service: ChatService | None) -> None:
        match event:
            case ModelLoading():
                self._output.status(loading_line(event))
            case ModelReady():
                self._models.add(event.model_name)
            case TurnPrefill() | TurnText() | TurnEnded() if event.turn_id in self._by_turn:
                self._take_turn(event, self._by_turn[event.turn_id], service)
            case SavingFailed() if not self._has_begun:
                # No model runs before the prompt is saved, and that may never be.
                raise event.error
            case SavingFailed():
                self._saving_error = event.error
            case SavingRecovered():
                self._saving_error = None

    def _take_turn(
        self,
        event: TurnPrefill | TurnText | TurnEnded,
        answer: Compared,
        service: ChatService | None,
    ) -> None:
        if isinstance(event, TurnEnded):
            answer.ended = event
            if service is not None:
                made = [e.turn for e in service.transcript(event.chat_id) if e.turn is not None]
                answer.turn = made[-1]
            self._output.ended(answer)
        else:
            self._has_begun = True
        if isinstance(event, TurnText):
            answer.pieces[event.part].append(event.text)
        if service is not None:
            self._look(service)
        self._output.status(self._progress())

    def _look(self, service: ChatService) -> None:
        """Note how many KV blocks the answers share."""
        views = {view.chat_id: view for m in self._models for view in service.snapshot(m).sequences}
        for answer in self.answers:
            if (view := views.get(answer.turn.chat_id)) is not None:
                answer.shared_blocks = max(answer.shared_blocks, view.shared_blocks)

    def _progress(self) -> str:
        num_done = sum(answer.ended is not None for answer in self.answers)
        num_chars = sum(len(answer.text) for answer in self.answers)
        return f"{num_done} of {len(self.answers)} answers complete, {num_chars:,} characters …"


def _asked(options: Mapping[str, Any]) -> tuple[list[BranchSpec], Settings]:
    """Return the answers that are wanted and the settings of the run. Raises LocalPagedError."""
    asked = options["models"]
    # what the sections of the config file say decides what a name means
    settings = settings_from({**options, "model": asked[0] if asked else None})
    models = [kept_choice(name, settings) for name in asked]
    specs = make_specs(
        models=models,
        num_samples=options["num_samples"],
        temperatures=options["temperatures"],
        seed=options["seed"],
    )
    if models:
        settings = replace(settings, model=models[0])
    overrides = {name: options[name] for name in SAMPLING if options[name] is not None}
    if options["stop"]:
        overrides["stop"] = tuple(options["stop"])
    sampling = with_overrides(settings.sampling, overrides)
    # A model that is not there must not leave chats behind.
    check_model(settings.model, settings)
    return specs, replace(settings, sampling=sampling)
