"""EngineCore: requests in, one step at a time, events out. Synchronous; one thread."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Protocol

from localpaged.engine.answer import Answer, Vocabulary
from localpaged.engine.events import (
    Event,
    FailEvent,
    FinishEvent,
    FinishReason,
    PrefillEvent,
    TokenEvent,
)
from localpaged.engine.metrics import Metrics, take_snapshot
from localpaged.engine.params import EngineConfig, Request, RequestId
from localpaged.engine.scheduler import Scheduler
from localpaged.engine.sequence import Sequence
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.engine.step_plan import PlannedRow, RowResult, StepPlan, StepResult
from localpaged.errors import EngineError, LocalPagedError, PromptTooLong, StepFailed

log = logging.getLogger(__name__)


class Runner(Protocol):
    """Computes a plan; `ModelRunner`, or a fake."""

    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens and sample its sampled rows."""


class EngineCore:
    """Scheduler, runner and answers of one model. Engine thread only.

    Every accepted request gets exactly one FinishEvent or FailEvent; its blocks are given back
    before that event is returned.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        vocabulary: Vocabulary,
        *,
        model_name: str = "",
        device: str = "cpu",
        block_bytes: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.config = config
        self.scheduler = Scheduler(config)
        self._runner = runner
        self._vocabulary = vocabulary
        self._names = {"model_name": model_name, "device": device}
        self._block_bytes = block_bytes
        self._clock = clock
        self._answers: dict[RequestId, Answer] = {}
        self._metrics = Metrics()

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        return not self._answers

    def submit(self, request: Request, *, submitted_s: float | None = None) -> list[Event]:
        """Queue a request, or return the FailEvent that says why not."""
        try:
            self._validate(request)
        except LocalPagedError as error:
            return [FailEvent(request.id, error)]
        seed = request.sampling.seed
        sequence = Sequence(
            request,
            seed=secrets.randbits(62) if seed is None else seed,
            block_size=self.config.block_size,
        )
        self._answers[request.id] = Answer(
            sequence,
            self._vocabulary,
            submitted_s=self._clock() if submitted_s is None else submitted_s,
        )
        self.scheduler.add(sequence)
        return []

    def cancel(self, request_id: RequestId) -> list[Event]:
        """End a request and keep its text; unknown ids are ignored."""
        answer = self._answers.get(request_id)
        if answer is None:
            return []
        return self._finish(answer, answer.finish_text(), (), FinishReason.CANCELLED)

    def fail_all(self, error: LocalPagedError) -> list[Event]:
        """End every request with `error`."""
        return [
            event for answer in list(self._answers.values()) for event in self._fail(answer, error)
        ]

    def step(self) -> list[Event]:
        """Plan, run and commit one forward pass; return what happened."""
        plan = self.scheduler.plan()
        if plan is None:
            return []
        try:
            result = self._runner.run(plan)
        except Exception as error:  # whatever breaks a step must not take the engine down
            log.exception("a step of %d tokens failed", plan.num_tokens)
            return self._fail_step(plan, error)
        return self._commit(plan, result)

    def snapshot(self) -> EngineSnapshot:
        """Return a picture of now."""
        return take_snapshot(
            self.scheduler,
            self._metrics,
            now_s=self._clock(),
            block_bytes=self._block_bytes,
            **self._names,
        )

    def check(self) -> None:
        """Recompute every invariant; between steps only."""
        self.scheduler.check()
        assert set(self._answers) == {s.request.id for s in self.scheduler.sequences}

    def _validate(self, request: Request) -> None:
        limit = self.config.context_length
        num_prompt = len(request.prompt_ids)
        if not num_prompt:
            raise EngineError("The prompt is empty.", hint="Write something first.")
        if num_prompt >= limit:
            raise PromptTooLong(
                f"The prompt has {num_prompt:,} tokens; the context holds {limit:,}, "
                "answer included.",
                hint="Shorten the prompt or start a new chat.",
            )
        max_tokens = request.sampling.max_tokens
        if max_tokens is not None and num_prompt + max_tokens > limit:
            raise PromptTooLong(
                f"{num_prompt:,} prompt tokens and an answer of up to {max_tokens:,} need "
                f"{num_prompt + max_tokens:,}; the context holds {limit:,}.",
                hint=f"Ask for at most {limit - num_prompt:,} tokens.",
            )
        if request.id in self._answers:
            raise EngineError(f"Request {request.id} is running already.")
        if len(self.scheduler.waiting) >= self.config.max_waiting:
            raise EngineError(
                f"{len(self.scheduler.waiting):,} requests are waiting already.",
                hint="Try again when some are done.",
            )
        vocab_size = len(self._vocabulary.token_bytes)
        if not all(0 <= token_id < vocab_size for token_id in request.prompt_ids):
            raise EngineError("The prompt has token ids that the model does not know.")

    def _commit(self, plan: StepPlan, result: StepResult) -> list[Event]:
        self.scheduler.commit(plan, result)
        now_s = self._clock()
        events: list[Event] = []
        num_sampled = 0
        for row, row_result in zip(plan.rows, result.rows, strict=True):
            answer = self._answers[row.request_id]
            self._count_prompt(answer.sequence, row)
            if row_result is None:
                events.append(_prefill_event(answer.sequence))
            else:
                num_sampled += row_result.token_id is not None
                events += self._take(answer, row, row_result, now_s)
        self._metrics.steps += 1
        self._metrics.count_generated(num_sampled, now_s=now_s)
        return events

    def _take(
        self, answer: Answer, row: PlannedRow, result: RowResult, now_s: float
    ) -> list[Event]:
        if result.token_id is None:
            return self._fail(answer, StepFailed(f"The answer broke off: {result.error}."))
        events: list[Event] = [_prefill_event(answer.sequence)] if row.sample_index == 0 else []
        text, reason = answer.push(
            result.token_id, now_s=now_s, context_length=self.config.context_length
        )
        if reason is not None:
            return events + self._finish(answer, text, (result.token_id,), reason)
        return [*events, TokenEvent(row.request_id, (result.token_id,), text)]

    def _finish(
        self, answer: Answer, text: str, token_ids: tuple[int, ...], reason: FinishReason
    ) -> list[Event]:
        request_id = answer.sequence.request.id
        self._drop(answer)
        events: list[Event] = []
        if text or token_ids:
            events.append(TokenEvent(request_id, token_ids, text))
        return [*events, FinishEvent(request_id, reason, answer.usage())]

    def _fail(self, answer: Answer, error: LocalPagedError) -> list[Event]:
        request_id, text = answer.sequence.request.id, answer.finish_text()
        self._drop(answer)
        events: list[Event] = [TokenEvent(request_id, (), text)] if text else []
        return [*events, FailEvent(request_id, error)]

    def _fail_step(self, plan: StepPlan, error: Exception) -> list[Event]:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        failure = StepFailed(
            f"The forward pass failed: {message}",
            hint="Other chats go on. Try again; the log has the details.",
        )
        events: list[Event] = []
        for row in plan.rows:
            events += self._fail(self._answers[row.request_id], failure)
        return events

    def _drop(self, answer: Answer) -> None:
        self.scheduler.finish(answer.sequence)
        del self._answers[answer.sequence.request.id]

    def _count_prompt(self, sequence: Sequence, row: PlannedRow) -> None:
        if sequence.num_prompt and row.start == sequence.num_cached_at_start:
            self._metrics.prompt_tokens += sequence.num_prompt
            self._metrics.cached_prompt_tokens += row.start
        self._metrics.computed_prompt_tokens += max(
            0, min(row.end, sequence.num_prompt) - row.start
        )


def _prefill_event(sequence: Sequence) -> PrefillEvent:
    return PrefillEvent(
        sequence.request.id,
        cached_tokens=sequence.num_cached_at_start or 0,
        computed_tokens=min(sequence.num_computed, sequence.num_prompt),
        prompt_tokens=sequence.num_prompt,
    )
