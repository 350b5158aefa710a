"""EngineCore: requests in, one step at a time, events out. Synchronous; one thread."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any

from localpaged.engine.admission import check_request
from localpaged.engine.answer import Answer, Vocabulary
from localpaged.engine.beam_group import BeamGroup
from localpaged.engine.beam_search import BeamSearch
from localpaged.engine.containment import Runner, grammar_failed, step_failed
from localpaged.engine.events import (
    Event,
    FailEvent,
    FinishEvent,
    PromptLogprobsEvent,
    TokenEvent,
    TokenLogprob,
)
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.grammar import GrammarCompiler
from localpaged.engine.grammar_desk import GrammarDesk
from localpaged.engine.inspection import BlockTokens, Inspection, PinView
from localpaged.engine.inspector import block_tokens, inspect, pin_view
from localpaged.engine.live_request import LiveRequest, prefill_event
from localpaged.engine.metrics import DeviceBytes, Metrics, take_snapshot
from localpaged.engine.params import EngineConfig, Request, RequestId
from localpaged.engine.pilot import Pilot
from localpaged.engine.scheduler import Scheduler
from localpaged.engine.sequence import Sequence
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.engine.step_plan import RowResult, SequenceId, StepPlan, StepResult
from localpaged.errors import EngineError, LocalPagedError

log = logging.getLogger(__name__)


class EngineCore:
    """Scheduler, runner and answers of one model. Engine thread only.

    An accepted request ends with a FinishEvent for each of its answers, the last one marked, or,
    whatever answers have ended before, with one FailEvent. A beam search has as many answers as
    it found. Blocks are given back before such an event is returned.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        vocabulary: Vocabulary,
        *,
        model_name: str = "",
        device: str = "cpu",
        dtype: str = "",
        block_bytes: int = 0,
        weight_bytes: int | None = None,
        device_bytes: DeviceBytes | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.config = config
        self.scheduler = Scheduler(config, clock=clock)
        self._pilot = Pilot(self.scheduler, runner, clock=lambda: self._clock())
        self._vocabulary = vocabulary
        compiler = GrammarCompiler(vocabulary.token_bytes, eos_ids=vocabulary.eos_ids)
        self._grammars = GrammarDesk(compiler)
        self._about: dict[str, Any] = {
            "model_name": model_name,
            "device": device,
            "dtype": dtype,
            "block_bytes": block_bytes,
            "weight_bytes": weight_bytes,
            "device_bytes": device_bytes,
        }
        self._clock = clock
        self._requests: dict[RequestId, LiveRequest] = {}
        self._answers: dict[SequenceId, Answer] = {}
        self._metrics = Metrics()
        self._ready_s = float("-inf")

    def note_ready(self) -> None:
        """The model is loaded: only from now on does a request wait for this core."""
        self._ready_s = self._clock()

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        return not self._requests

    @property
    def is_blocked(self) -> bool:
        """Whether a step could do nothing but wait for a grammar that is being made."""
        num_open = self._grammars.num_open
        return 0 < num_open == len(self._requests) and not self._grammars.has_news

    def call_when_unblocked(self, wake: Callable[[], None]) -> None:
        """Call `wake`, on another thread, whenever a grammar is made."""
        self._grammars.wake = wake

    def submit(self, request: Request, *, submitted_s: float | None = None) -> list[Event]:
        """Queue a request, or return the FailEvent that says why not."""
        try:
            check_request(
                request,
                self.config,
                vocab_size=len(self._vocabulary.token_bytes),
                is_running=request.id in self._requests,
                num_waiting=len(self.scheduler.waiting),
            )
        except LocalPagedError as error:
            return [FailEvent(request.id, error)]
        except Exception as error:  # what one request is made of must not end the others
            log.exception("request %s could not be read", request.id)
            return [FailEvent(request.id, EngineError(f"The request cannot be read: {error}."))]
        search = self._beam_search(request)
        seed = request.sampling.seed
        sequence = self.scheduler.add(
            request,
            seed=secrets.randbits(62) if seed is None else seed,
            num_candidates=0 if search is None else search.num_candidates,
            end_ids=self._end_ids(request),
            is_paused=request.sampling.grammar is not None,
        )
        submitted_s = self._clock() if submitted_s is None else submitted_s
        load_s = max(0.0, self._ready_s - submitted_s)
        answer = Answer(sequence, self._vocabulary, submitted_s=submitted_s + load_s, load_s=load_s)
        beams = None if search is None else BeamGroup(search, sequence)
        self._requests[request.id] = LiveRequest(request, answer, beams=beams)
        self._metrics.requests += 1
        self._answers[sequence.id] = answer
        if request.sampling.grammar is not None:
            self._grammars.begin(request, request.sampling.grammar)
        if request.is_foreground:
            self.focus(request.chat_id)
        return []

    def focus(self, chat_id: str) -> None:
        """Serve this chat before others from now on: the user looks at it."""
        self.scheduler.foreground_chat = chat_id

    def pin(self, key: str, tokens: Iterable[int]) -> PinView:
        """Keep the KV of a prefix until `key` is unpinned; raises NoRoom, with the numbers."""
        self.scheduler.pin(key, tokens)
        return pin_view(self.scheduler.kv, key)

    def pin_branch(self, key: str, node_id: int) -> PinView:
        """Keep the prefix that ends with a branch of the tree; raises NoRoom, as `pin` does."""
        self.scheduler.pin_branch(key, node_id)
        return pin_view(self.scheduler.kv, key)

    def unpin(self, key: str) -> PinView:
        """Let a pinned prefix be evicted again; return what was pinned, perhaps nothing."""
        view = pin_view(self.scheduler.kv, key)
        self.scheduler.kv.unpin(key)
        return view

    def evict(self, node_id: int, offset: int = 0) -> int:
        """Evict what nobody holds of a branch from its block `offset` on; return the count."""
        return self.scheduler.kv.evict_branch(node_id, offset)

    def inspect(self) -> Inspection:
        """Return what lies in every block now."""
        return inspect(
            self.scheduler.kv,
            self.scheduler.running,
            now_s=self._clock(),
            context_blocks=self.scheduler.context_blocks,
            model_name=self._about["model_name"],
            block_bytes=self._about["block_bytes"],
        )

    def block_tokens(self, block: int) -> BlockTokens | None:
        """Return the tokens of a block, numbered as in an Inspection; None when it has none."""
        return block_tokens(self.scheduler.kv, self.scheduler.running, block)

    def cancel(self, request_id: RequestId, *, branch: int | None = None) -> list[Event]:
        """End a request, or one of its answers, and keep the text; unknown ids are ignored."""
        live = self._requests.get(request_id)
        if live is None:
            return []
        if live.beams is not None:
            return self._finish_beams(live, FinishReason.CANCELLED)
        if len(live.answers) < live.request.num_samples:
            # Nothing branched yet: the only sequence stands for all answers.
            if branch is None:
                return self._finish_unbranched(live)
            live.cancelled_branches.add(branch)
            return []
        return [
            event
            for answer in live.open_answers
            if branch is None or answer.sequence.branch == branch
            for event in self._finish(answer, answer.finish_text(), (), FinishReason.CANCELLED)
        ]

    def fail_all(self, error: LocalPagedError) -> list[Event]:
        """End every request with `error`."""
        return [
            event for live in list(self._requests.values()) for event in self._fail(live, error)
        ]

    def step(self) -> list[Event]:
        """Plan, run and commit one forward pass; return what happened."""
        events = self._take_grammars()
        step = self._pilot.step()
        if step is None:
            return events
        plan, result = step.plan, step.result
        held_blocks = self.scheduler.kv.pool.num_held
        self._metrics.count_plan(plan, seconds=step.seconds, held_blocks=held_blocks)
        self.scheduler.learn(plan, seconds=step.seconds, swap_s=result.swap_s)
        return [*events, *self._commit(plan, result, step.ended_s)]

    def snapshot(self) -> EngineSnapshot:
        """Return a picture of now."""
        return take_snapshot(
            self.scheduler,
            self._metrics,
            now_s=self._clock(),
            runner_note=self._pilot.note,
            **self._about,
        )

    def check(self) -> None:
        """Recompute every invariant; between steps only."""
        self.scheduler.check()
        live = {s.id: s.request.id for s in self.scheduler.sequences}
        assert set(live.values()) == set(self._requests)
        assert set(self._answers) <= {
            answer.sequence.id for r in self._requests.values() for answer in r.answers
        }

    def _beam_search(self, request: Request) -> BeamSearch | None:
        if request.beam is None:
            return None
        room = self.config.context_length - len(request.prompt_ids)
        max_tokens = request.sampling.max_tokens or room
        return BeamSearch(request.beam, eos_ids=self._end_ids(request), max_tokens=max_tokens)

    def _take_grammars(self) -> list[Event]:
        """Let requests go on, or fail, whose grammar is made."""
        events: list[Event] = []
        for request_id, made in self._grammars.take(may_wait=self.is_blocked):
            live = self._requests[request_id]
            if isinstance(made, LocalPagedError):
                events += self._fail(live, made)
            else:
                live.first.sequence.begin_grammar(made)
        return events

    def _end_ids(self, request: Request) -> frozenset[int]:
        """Return the tokens that end an answer."""
        eos_ids = frozenset() if request.sampling.ignore_eos else self._vocabulary.eos_ids
        return eos_ids | frozenset(request.sampling.stop_token_ids)

    def _commit(self, plan: StepPlan, result: StepResult, now_s: float) -> list[Event]:
        events: list[Event] = []
        sequences = self.scheduler.advance(plan, result)
        for row, sequence, row_result in zip(plan.rows, sequences, result.rows, strict=True):
            live = self._requests.get(row.request_id)
            if live is None:
                continue  # a sibling of this row failed the whole request
            if row_result is not None and row_result.error is not None:
                events += self._fail(live, step_failed(row_result.error))
                continue
            self._metrics.count_row(sequence, row)
            if row.start < sequence.num_prompt:
                events.append(prefill_event(sequence))
            if row.prompt_scores is not None and row_result is not None:
                start = row.start + row.prompt_scores.offset + 1
                events.append(
                    PromptLogprobsEvent(live.request.id, start, row_result.prompt_logprobs)
                )
            if row_result is not None and row.needs_logits:
                if row.num_drafts:
                    events += self._take_run(sequence, row_result, now_s)
                else:
                    events += self._take(live, sequence, row_result, now_s)
        self._metrics.end_step(now_s)
        return events

    def _take(
        self, live: LiveRequest, sequence: Sequence, result: RowResult, now_s: float
    ) -> list[Event]:
        if live.beams is not None:
            live.beams.take(sequence, result.candidates, self.scheduler)
            self._metrics.count_tokens(0, live.first.wait(now_s))
            live.first.note_token(now_s)
            return self._finish_beams(live, FinishReason.STOP) if live.beams.is_done else []
        grown = [self._answers[sequence.id]]
        self._metrics.count_tokens(len(result.token_ids), grown[0].wait(now_s))
        for branch in range(1, len(result.token_ids)):
            child = self.scheduler.fork(sequence, branch=branch)
            grown.append(grown[0].branch_off(child))
            self._answers[child.id] = grown[-1]
            live.answers.append(grown[-1])
        events: list[Event] = []
        logprobs = result.logprobs or (None,) * len(grown)
        for answer, token_id, logprob in zip(grown, result.token_ids, logprobs, strict=True):
            answer.sequence.append(token_id)
            matcher = answer.sequence.matcher
            if matcher is not None and matcher.error is not None:
                return [*events, *self._fail(live, grammar_failed(matcher.error))]
            events += self._push(answer, token_id, now_s, () if logprob is None else (logprob,))
        for answer in grown:
            if answer.sequence.branch in live.cancelled_branches and not answer.is_over:
                events += self._finish(answer, answer.finish_text(), (), FinishReason.CANCELLED)
        return events

    def _take_run(self, sequence: Sequence, result: RowResult, now_s: float) -> list[Event]:
        """Take drafts that were drawn and the token after them, unless the answer ends before."""
        answer = self._answers[sequence.id]
        last = len(result.token_ids) - 1
        wait = answer.wait(now_s)
        events: list[Event] = []
        for place, token_id in enumerate(result.token_ids):
            sequence.append(token_id)
            if place < last:
                self.scheduler.accept_draft(sequence)
            events += self._push(answer, token_id, now_s, result.logprobs[place : place + 1])
            if answer.is_over:
                break
        else:
            self.scheduler.kv.trim(sequence)
        self._metrics.count_tokens(place + 1, wait)
        return events

    def _push(
        self, answer: Answer, token_id: int, now_s: float, logprobs: tuple[TokenLogprob, ...]
    ) -> list[Event]:
        text, reason = answer.push(token_id, now_s=now_s, context_length=self.config.context_length)
        if reason is not None:
            return self._finish(answer, text, (token_id,), reason, logprobs)
        sequence = answer.sequence
        return [TokenEvent(sequence.request.id, (token_id,), text, sequence.branch, logprobs)]

    def _finish(
        self,
        answer: Answer,
        text: str,
        token_ids: tuple[int, ...],
        reason: FinishReason,
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> list[Event]:
        request_id, branch = answer.sequence.request.id, answer.sequence.branch
        live = self._requests[request_id]
        self._drop(answer)
        events: list[Event] = []
        if text or token_ids:
            events.append(TokenEvent(request_id, token_ids, text, branch, logprobs))
        is_last = not live.is_open
        if is_last:
            del self._requests[request_id]
        return [*events, FinishEvent(request_id, reason, answer.usage(), branch, is_last)]

    def _finish_unbranched(self, live: LiveRequest) -> list[Event]:
        request = live.request
        self._drop(live.first)
        del self._requests[request.id]
        last = request.num_samples - 1
        return [
            FinishEvent(
                request.id, FinishReason.CANCELLED, live.first.usage(), branch, branch == last
            )
            for branch in range(request.num_samples)
        ]

    def _finish_beams(self, live: LiveRequest, reason: FinishReason) -> list[Event]:
        assert live.beams is not None
        for sequence in live.beams.sequences:
            self.scheduler.finish(sequence)
        del self._answers[live.first.sequence.id]
        del self._requests[live.request.id]
        events = live.beam_events(reason)
        self._metrics.count_beams(events)
        return events

    def _fail(self, live: LiveRequest, error: LocalPagedError) -> list[Event]:
        events: list[Event] = []
        if live.beams is not None:
            for sequence in live.beams.sequences:
                self.scheduler.finish(sequence)
            self._answers.pop(live.first.sequence.id, None)
        else:
            for answer in live.open_answers:
                if text := answer.finish_text():
                    events.append(TokenEvent(live.request.id, (), text, answer.sequence.branch))
                self._drop(answer)
        del self._requests[live.request.id]
        return [*events, FailEvent(live.request.id, error)]

    def _drop(self, answer: Answer) -> None:
        answer.is_over = True
        self.scheduler.finish(answer.sequence)
        self._grammars.drop(answer.sequence.request.id)
        del self._answers[answer.sequence.id]
