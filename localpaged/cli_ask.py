"""`localpaged ask`: one question, one answer, fit for pipes."""

from __future__ import annotations

import json
import queue
import signal
import sys
from collections.abc import Mapping
from typing import Any

from localpaged.chat.events import (
    ChatEvent,
    ModelLoading,
    SavingFailed,
    TurnEnded,
    TurnPrefill,
    TurnText,
)
from localpaged.chat.service import ChatService
from localpaged.cli_options import settings_from
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError, ConfigError
from localpaged.plain_text import visible
from localpaged.store.rows import Chat, Turn, TurnStatus

INTERRUPTED_EXIT_CODE = 130
BROKEN_PIPE_EXIT_CODE = 141
SAMPLING_OPTIONS = ("temperature", "top_k", "top_p", "min_p", "seed", "max_tokens")


def run_ask(question: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Answer a question on stdout; return the exit code. Raises LocalPagedError."""
    text = _question_text(question)
    if options["is_continued"] and options["system"]:
        raise ConfigError(
            "--system begins a new chat; --continue goes on with the last one.",
            hint="Use one of the two.",
        )
    sampling = SamplingParams(
        **{name: options[name] for name in SAMPLING_OPTIONS if options[name] is not None},
        stop=tuple(options["stop"]),
    )
    settings = settings_from(options)
    # Late: the engine's thread should begin to import torch only when the input is fine.
    from localpaged.wiring import open_service

    service = open_service(settings)
    try:
        chat = _chat(service, options)
        return _Answering(service, is_json=options["is_json"]).run(chat, text, sampling)
    finally:
        service.close()


def _question_text(question: tuple[str, ...]) -> str:
    parts = [" ".join(question)]
    if not sys.stdin.isatty():
        # Bytes that are no UTF-8 become replacement marks instead of an error in mid-pipe.
        parts.append(sys.stdin.buffer.read().decode("utf-8", "replace"))
    text = "\n\n".join(part for part in parts if part.strip())
    if not text:
        raise ConfigError(
            "There is no question.", hint='Try: localpaged ask "Why is the sky blue?"'
        )
    return text


def _chat(service: ChatService, options: Mapping[str, Any]) -> Chat:
    if not options["is_continued"]:
        return service.new_chat(system=options["system"] or "")
    chat = service.latest_chat()
    if chat is None:
        raise ChatError("There is no chat to continue.", hint="Ask without --continue first.")
    return chat


class _Answering:
    """Prints one answer as it comes. The main thread; events arrive through a queue."""

    def __init__(self, service: ChatService, *, is_json: bool) -> None:
        self._service = service
        self._is_json = is_json
        self._events: queue.SimpleQueue[ChatEvent] = queue.SimpleQueue()
        self._has_status_line = sys.stderr.isatty()
        self._pieces: list[str] = []
        service.subscribe(self._receive)

    def run(self, chat: Chat, text: str, sampling: SamplingParams) -> int:
        turn = self._service.send(chat.id, text, sampling=sampling)
        interrupted = _stop_on_interrupt(self._service, turn)
        try:
            ended = self._until_end(turn)
            return self._finish(turn, ended, is_interrupted=bool(interrupted))
        except BrokenPipeError:
            # The reader has seen enough; python would complain once more at exit.
            sys.stdout = None
            return BROKEN_PIPE_EXIT_CODE

    def _receive(self, events: tuple[ChatEvent, ...]) -> None:
        for event in events:
            self._events.put(event)

    def _until_end(self, turn: Turn) -> TurnEnded:
        while True:
            event = self._events.get()
            match event:
                case ModelLoading():
                    self._status(_loading_line(event))
                case TurnPrefill() if event.turn_id == turn.id:
                    self._status(
                        f"reading {event.computed_tokens:,}/{event.prompt_tokens:,} tokens"
                    )
                case TurnText() if event.turn_id == turn.id:
                    self._text(event.text)
                case SavingFailed():
                    self._note(f"not saved: {event.error.message}")
                case TurnEnded() if event.turn_id == turn.id:
                    return event

    def _text(self, text: str) -> None:
        self._pieces.append(text)
        if text and not self._is_json:
            self._status("")
            sys.stdout.write(visible(text, multiline=True))
            sys.stdout.flush()

    def _finish(self, turn: Turn, ended: TurnEnded, *, is_interrupted: bool) -> int:
        self._status("")
        if self._is_json:
            print(json.dumps(_as_json(turn, ended, "".join(self._pieces)), ensure_ascii=False))
        elif self._pieces and not "".join(self._pieces).endswith("\n"):
            print()
        sys.stdout.flush()
        if ended.error is not None:
            raise ended.error
        if is_interrupted or ended.status is TurnStatus.STOPPED:
            return INTERRUPTED_EXIT_CODE
        if ended.usage is not None and self._has_status_line:
            usage = ended.usage
            self._note(
                f"{usage.completion_tokens} tokens · {usage.decode_tokens_per_s:.0f} tok/s · "
                f"first after {usage.ttft_s:.2f} s · "
                f"prompt {usage.cached_tokens} cached + {usage.new_tokens} new"
            )
        return 0

    def _status(self, line: str) -> None:
        """Show a passing line on a terminal's stderr; the next one replaces it."""
        if self._has_status_line:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def _note(self, line: str) -> None:
        self._status("")
        print(visible(line), file=sys.stderr)


def _stop_on_interrupt(service: ChatService, turn: Turn) -> list[int]:
    """Let the first Ctrl+C end the answer and keep its text, a second one the program."""
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        service.stop(turn.id)

    signal.signal(signal.SIGINT, stop)
    return received


def _loading_line(loading: ModelLoading) -> str:
    event = loading.event
    share = f" {event.done / event.total:.0%}" if event.total else ""
    return f"{event.stage}{share} …"


def _as_json(turn: Turn, ended: TurnEnded, text: str) -> dict[str, Any]:
    usage = ended.usage
    return {
        "chat_id": turn.chat_id,
        "text": text,
        "status": ended.status.value,
        "finish_reason": ended.finish_reason.value if ended.finish_reason else None,
        "seed": turn.seed,
        "error": ended.error.message if ended.error else None,
        "usage": None
        if usage is None
        else {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "ttft_s": round(usage.ttft_s, 4),
            "decode_tokens_per_s": round(usage.decode_tokens_per_s, 2),
        },
    }
