"""An engine without a model: answers come from a script, time from `step()` or from a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localpaged.engine.events import (
    EngineFailedEvent,
    Event,
    FailEvent,
    FinishEvent,
    LoadEvent,
    PrefillEvent,
    ReadyEvent,
    TokenEvent,
    Usage,
)
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import Request, RequestId
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import EngineStopped, LocalPagedError, ModelNotFound, PromptTooLong
from testkit.fake_model import piece_id
from testkit.scripted_memory import ScriptedMemory
from testkit.scripted_models import ScriptedModels
from testkit.scripted_parts import (
    Running,
    Totals,
    num_blocks,
    scored_prompt,
    told_logprobs,
    view,
)

if TYPE_CHECKING:
    from localpaged.engine.port import Listener

STEP_S = 0.01
MIB = 1 << 20
LOAD_STAGES = (
    LoadEvent("reading weights", 40 * MIB, 94 * MIB, "bytes"),
    LoadEvent("reading weights", 94 * MIB, 94 * MIB, "bytes"),
    LoadEvent("allocating KV", 256, 256, "blocks"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets: a piece a step; `error` makes it fail at the end.

    Each piece is one token, unless `token_ids` says which tokens every piece comes with.
    """

    pieces: tuple[str, ...] = ()
    token_ids: tuple[tuple[int, ...], ...] = ()
    error: LocalPagedError | None = None
    reason: FinishReason = FinishReason.STOP


Script = Callable[[Request], Answer | Sequence[str]]


class ScriptedEngine(ScriptedMemory):
    """Implements EnginePort. Driven by `load()` and `step()`, or by a thread after `start()`.

    `script` is a function from a request to its answer, or answers in the order of submission
    (the last one repeats). In manual use time is virtual: STEP_S a step.
    """

    def __init__(
        self,
        script: Script | Sequence[Answer | Sequence[str]] = (("Hello", ", ", "world", "."),),
        *,
        ready: ReadyEvent | None = None,
        load_stages: Sequence[LoadEvent] = LOAD_STAGES,
        load_error: LocalPagedError | None = None,
        prefill_tokens_per_step: int = 512,
        total_blocks: int = 256,
    ) -> None:
        super().__init__(total_blocks)
        self.submitted: list[Request] = []
        self.cancelled: list[RequestId] = []
        self.focused: list[str] = []
        self._script = script
        self._ready = ready or ReadyEvent("fake-model", "cpu", "float32", 8_192, 0.1)
        self._load_stages = load_stages
        self.further = ScriptedModels(load_stages, self._ready)
        self._load_error = load_error
        self._prefill_tokens_per_step = prefill_tokens_per_step
        self._total_blocks = total_blocks
        self._listeners: list[Listener] = []
        self._open: dict[RequestId, Running] = {}
        self._refused: list[FailEvent] = []
        self._totals = Totals()
        self._is_loaded = False
        self._is_closed = False
        self._failure: LocalPagedError | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._snapshots = {"": self._picture()}

    # EnginePort

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` for every batch of events from now on."""
        self._listeners.append(listener)

    def submit(self, request: Request) -> None:
        """Queue a request. A refusal arrives as FailEvent at the next step."""
        with self._changed:
            refusal = self._refusal(request)
            if refusal is None:
                answer = self._answer(request)
                self._open[request.id] = Running(request, answer, self._now())
            else:
                self._refused.append(FailEvent(request.id, refusal))
            self.submitted.append(request)
            self._changed.notify_all()

    def cancel(self, request_id: RequestId) -> None:
        """End a request at the next step; unknown or finished ids are ignored."""
        with self._changed:
            self.cancelled.append(request_id)
            self._changed.notify_all()

    def focus(self, chat_id: str) -> None:
        """Serve this chat before others from now on; a script serves all alike."""
        self.focused.append(chat_id)

    def unload(self, name: str) -> None:
        """Let a further model go at the next step."""
        with self._changed:
            self.further.drop(name)
            self._changed.notify_all()

    def snapshot(self, model: str = "") -> EngineSnapshot:
        """Return the latest picture of a model."""
        return self._snapshots.get(model) or EngineSnapshot()

    def why_stopped(self) -> LocalPagedError | None:
        """Return why there is no engine any more; None while there is one."""
        if self._failure is not None or self._is_closed:
            cause = self._failure or "it was closed"
            return EngineStopped(f"The engine has stopped: {cause}")
        return None

    def close(self) -> None:
        """Cancel everything and wait for the thread to end. A second call does nothing."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._changed:
            events: list[Event] = [self._finish(r, FinishReason.CANCELLED) for r in self._running()]
        self._emit(events)

    # driving it

    def load(self, name: str = "") -> None:
        """Send the stages of loading, then ReadyEvent, or `load_error`'s end of the engine.

        A further model, as EnginePort has it, is loaded at the next step.
        """
        if name:
            with self._changed:
                self.further.ask(name)
                self._changed.notify_all()
            return
        for stage in self._load_stages:
            self._emit([stage])
        if self._load_error is not None:
            self.fail(self._load_error)
            return
        with self._changed:
            self._is_loaded = True
        self._emit([self._ready])

    def step(self) -> bool:
        """Prefill a chunk or send one piece of every open request; return whether there was any."""
        with self._changed:
            events: list[Event] = list(self._refused)
            self._refused.clear()
            events += self._cancel_asked()
            if self._is_loaded and self._failure is None:
                self._totals.steps += 1
                events += self._step_models()
                for running in self._running():
                    if self._is_ready(running):
                        events += self._advance(running)
            self._snapshots = self._pictures()
        self._emit(events)
        return bool(events)

    def run_until_idle(self, *, max_steps: int = 100_000) -> None:
        """Step until nothing is open."""
        for _ in range(max_steps):
            if not self.step():
                return
        raise AssertionError(f"still busy after {max_steps} steps")

    def forget(self, chat_id: str) -> None:
        """Evict what was computed for a chat: its next prompt finds nothing."""
        with self._changed:
            self._totals.sequences_by_chat.pop(chat_id, None)

    def fail(self, error: LocalPagedError) -> None:
        """Die: every open request fails, then the engine does; later requests are refused."""
        with self._changed:
            self._failure = error
            events: list[Event] = [FailEvent(r.request.id, error) for r in self._running()]
            self._open.clear()
            self._snapshots = self._pictures()
        self._emit([*events, EngineFailedEvent(error)])

    def start(self, *, tokens_per_s: float = 60.0, load_s: float = 0.0) -> None:
        """Load and step in a thread of its own, one piece of every request each 1/tokens_per_s."""
        self._thread = threading.Thread(
            target=self._run, args=(1 / tokens_per_s, load_s), name="scripted-engine", daemon=True
        )
        self._thread.start()

    def wait_submitted(self, count: int, *, timeout_s: float = 10.0) -> Request:
        """Wait until `count` requests were submitted; return the last of them."""
        with self._changed:
            ok = self._changed.wait_for(lambda: len(self.submitted) >= count, timeout_s)
            assert ok, f"{len(self.submitted)} of {count} requests after {timeout_s} s"
            return self.submitted[count - 1]

    # inside

    def _run(self, step_s: float, load_s: float) -> None:
        time.sleep(load_s)
        self.load()
        due = time.monotonic()
        while True:
            with self._changed:
                if not self._has_work():
                    self._changed.wait_for(lambda: self._is_closed or self._has_work())
                    due = time.monotonic()
                due += step_s
                self._changed.wait_for(lambda: self._is_closed, max(0.0, due - time.monotonic()))
                if self._is_closed:
                    return
            self.step()

    def _has_work(self) -> bool:
        has_begun = any(self._is_ready(running) for running in self._running())
        is_cancelled = any(request_id in self._open for request_id in self.cancelled)
        return has_begun or is_cancelled or bool(self._refused) or self.further.has_work

    def _is_ready(self, running: Running) -> bool:
        return not running.request.model or running.request.model in self.further.loaded

    def _step_models(self) -> list[Event]:
        events, failed = self.further.step()
        for running in self._running():
            if (error := failed.get(running.request.model)) is not None:
                del self._open[running.request.id]
                events.append(FailEvent(running.request.id, error))
        return events

    def _running(self) -> list[Running]:
        return list(self._open.values())

    def _now(self) -> float:
        is_virtual = self._thread is None
        return self._totals.steps * STEP_S if is_virtual else time.monotonic()

    def _refusal(self, request: Request) -> LocalPagedError | None:
        if (stopped := self.why_stopped()) is not None:
            return stopped
        if not self.further.is_known(request.model):
            return ModelNotFound(f"{request.model} is not loaded.")
        limit = self._ready.context_length
        if len(request.prompt_ids) >= limit:
            return PromptTooLong(
                f"The prompt has {len(request.prompt_ids)} tokens, the model takes {limit}.",
                hint="Start a new chat.",
            )
        return None

    def _answer(self, request: Request) -> Answer:
        if callable(self._script):
            answer = self._script(request)
        else:
            answer = self._script[min(len(self.submitted), len(self._script) - 1)]
        return answer if isinstance(answer, Answer) else Answer(tuple(answer))

    def _cancel_asked(self) -> list[Event]:
        asked = [self._open[i] for i in dict.fromkeys(self.cancelled) if i in self._open]
        return [self._finish(running, FinishReason.CANCELLED) for running in asked]

    def _advance(self, running: Running) -> list[Event]:
        if not running.is_prefilled:
            read = self._prefill(running)
            return [read, *(scored_prompt(running.request) if running.is_prefilled else [])]
        if running.sent < len(running.answer.pieces):
            return self._decode(running)
        return [self._end(running)]

    def _prefill(self, running: Running) -> PrefillEvent:
        prompt = running.request.prompt_ids
        if running.computed_tokens == 0:
            running.cached_tokens = self._totals.cached_tokens(running.request)
            running.computed_tokens = running.cached_tokens
            self._totals.requests += 1
            self._totals.prompt_tokens += len(prompt)
            self._totals.cached_prompt_tokens += running.cached_tokens
        running.computed_tokens = min(
            len(prompt), running.computed_tokens + self._prefill_tokens_per_step
        )
        return PrefillEvent(
            running.request.id, running.cached_tokens, running.computed_tokens, len(prompt)
        )

    def _decode(self, running: Running) -> list[Event]:
        piece = running.answer.pieces[running.sent]
        running.sent += 1
        running.last_token_at = self._now()
        if running.sent == 1:
            running.first_token_at = running.last_token_at
        self._totals.generated_tokens += 1
        known = running.answer.token_ids
        token_ids = known[running.sent - 1] if known else (piece_id(piece),)
        running.sent_ids += token_ids
        told = told_logprobs(running.request.sampling, token_ids)
        events: list[Event] = [TokenEvent(running.request.id, token_ids, piece, 0, told)]
        if running.sent == running.request.sampling.max_tokens:
            events.append(self._finish(running, FinishReason.LENGTH))
        elif running.sent == len(running.answer.pieces):
            events.append(self._end(running))
        return events

    def _end(self, running: Running) -> FinishEvent | FailEvent:
        if running.answer.error is None:
            return self._finish(running, running.answer.reason)
        del self._open[running.request.id]
        return FailEvent(running.request.id, running.answer.error)

    def _finish(self, running: Running, reason: FinishReason) -> FinishEvent:
        request = running.request
        del self._open[request.id]
        ids = (*request.prompt_ids, *running.sent_ids)
        self._totals.keep(request, ids)
        self.remember(request.chat_id, ids)
        self._totals.residue_blocks += num_blocks(running.num_tokens)
        usage = Usage(
            prompt_tokens=len(request.prompt_ids),
            cached_tokens=running.cached_tokens,
            completion_tokens=running.sent,
            ttft_s=running.first_token_at - running.submitted_at if running.sent else 0.0,
            decode_s=running.last_token_at - running.first_token_at,
        )
        return FinishEvent(request.id, reason, usage)

    def _pictures(self) -> dict[str, EngineSnapshot]:
        return {name: self._picture(name) for name in ("", *self.further.loaded)}

    def _picture(self, model: str = "") -> EngineSnapshot:
        running = [r for r in self._running() if r.request.model == model]
        held = min(self._total_blocks, sum(num_blocks(r.num_tokens) for r in running))
        cached = min(self._total_blocks - held, self._totals.residue_blocks)
        totals = self._totals
        return EngineSnapshot(
            model_name=model or self._ready.model_name,
            device=self._ready.device,
            block_bytes=360 * 1024,
            total_blocks=self._total_blocks,
            held_blocks=held,
            cached_blocks=cached,
            free_blocks=self._total_blocks - held - cached,
            sequences=tuple(view(r, is_loaded=self._is_loaded) for r in running),
            requests=totals.requests,
            steps=totals.steps,
            prompt_tokens=totals.prompt_tokens,
            cached_prompt_tokens=totals.cached_prompt_tokens,
            computed_prompt_tokens=totals.prompt_tokens - totals.cached_prompt_tokens,
            generated_tokens=totals.generated_tokens,
            decode_tokens_per_s=sum(1 for r in running if r.is_prefilled) / STEP_S,
        )

    def _emit(self, events: Sequence[Event]) -> None:
        if events:
            for listener in self._listeners:
                listener(tuple(events))
