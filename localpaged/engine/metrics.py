"""Counters since start and the snapshot made of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from localpaged.engine.events import Event, TokenEvent
from localpaged.engine.latency import INTER_TOKEN_WINDOW, TTFT_WINDOW, LatencyWindow, Wait
from localpaged.engine.scheduler import Scheduler
from localpaged.engine.sequence import Sequence, Status
from localpaged.engine.snapshot import EngineSnapshot, SequenceView
from localpaged.engine.step_plan import PlannedRow, StepPlan

RATE_WINDOW_S = 2.0

DeviceBytes = Callable[[], tuple[int, int]]
"""Tells all bytes of a card, and those that nobody has."""


@dataclass(slots=True)
class Metrics:
    """Always-on counters; `docs/stats.md` defines them. Engine thread only.

    Invariant: prompt_tokens counts each request's prompt once, cached_prompt_tokens what of it was
    found when it was admitted first. Nothing grows with the number of tokens.
    """

    requests: int = 0
    steps: int = 0
    step_rows: int = 0
    peak_held_blocks: int = 0
    busy_s: float = 0.0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    computed_prompt_tokens: int = 0
    prefilled_tokens: int = 0
    generated_tokens: int = 0
    swapped_out_blocks: int = 0
    ttft: LatencyWindow = field(default_factory=lambda: LatencyWindow(TTFT_WINDOW))
    inter_token: LatencyWindow = field(default_factory=lambda: LatencyWindow(INTER_TOKEN_WINDOW))
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _told_tokens: int = 0

    def count_plan(self, plan: StepPlan, *, seconds: float, held_blocks: int) -> None:
        """Count a step that ran for `seconds` while so many blocks were held."""
        self.peak_held_blocks = max(self.peak_held_blocks, held_blocks)
        self.busy_s += seconds
        self.steps += 1
        self.step_rows += len(plan.rows)
        self.swapped_out_blocks += len(plan.swap_outs)

    def count_row(self, sequence: Sequence, row: PlannedRow) -> None:
        """Count the tokens that a row read, and at a prompt's first one what was cached."""
        if not sequence.is_prompt_counted:
            sequence.is_prompt_counted = True
            self.prompt_tokens += sequence.num_prompt
            self.cached_prompt_tokens += sequence.num_cached_at_start or 0
        num_tokens = len(row.token_ids) - row.num_drafts
        if num_tokens > 1 or row.start < sequence.num_prompt:
            self.prefilled_tokens += num_tokens
            self.computed_prompt_tokens += max(0, min(row.end, sequence.num_prompt) - row.start)

    def count_tokens(self, num_tokens: int, wait: Wait) -> None:
        """Count what an answer, or all answers that begin together, got in a step.

        Of several tokens at once the reader waited as long for each, on average. A beam search
        counts 0 tokens until its answers are told.
        """
        self.generated_tokens += num_tokens
        if wait.is_first:
            self.ttft.add(wait.seconds)
        elif wait.seconds > 0:  # else it is a further beam of the same step
            count = max(1, num_tokens)
            self.inter_token.add(wait.seconds / count, count=count)

    def count_beams(self, told: Iterable[Event]) -> None:
        """Count the tokens of a beam search's answers."""
        self.generated_tokens += sum(len(e.token_ids) for e in told if isinstance(e, TokenEvent))

    def end_step(self, now_s: float) -> None:
        """Take over when the tokens came that were counted since the last step."""
        self._recent.append((now_s, self.generated_tokens - self._told_tokens))
        self._told_tokens = self.generated_tokens

    def tokens_per_s(self, now_s: float) -> float:
        """Return sampled tokens a second over the last two seconds."""
        while self._recent and self._recent[0][0] < now_s - RATE_WINDOW_S:
            self._recent.popleft()
        return sum(count for _, count in self._recent) / RATE_WINDOW_S


def take_snapshot(
    scheduler: Scheduler,
    metrics: Metrics,
    *,
    now_s: float,
    model_name: str,
    device: str,
    block_bytes: int,
    weight_bytes: int | None,
    device_bytes: DeviceBytes | None = None,
    runner_note: str = "",
    dtype: str = "",
) -> EngineSnapshot:
    """Return the engine's state between two steps as plain values."""
    kv, pool = scheduler.kv, scheduler.kv.pool
    total_bytes, free_bytes = (None, None) if device_bytes is None else device_bytes()
    running = [_view(s, scheduler, None) for s in scheduler.running]
    waiting = [_view(s, scheduler, place) for place, s in enumerate(scheduler.queue(), start=1)]
    return EngineSnapshot(
        model_name=model_name,
        device=device,
        block_size=kv.block_size,
        block_bytes=block_bytes,
        total_blocks=pool.num_blocks,
        held_blocks=pool.num_held,
        cached_blocks=pool.num_cached,
        free_blocks=pool.num_free,
        max_blocks=kv.max_blocks,
        pinned_blocks=kv.pins.num_blocks,
        host_total_blocks=kv.host.num_slots,
        host_used_blocks=kv.host.num_used,
        sequences=tuple(running + waiting),
        taken_s=now_s,
        weight_bytes=weight_bytes,
        device_total_bytes=total_bytes,
        device_free_bytes=free_bytes,
        filled_slots=_filled_slots(scheduler),
        requests=metrics.requests,
        steps=metrics.steps,
        step_rows=metrics.step_rows,
        peak_held_blocks=max(metrics.peak_held_blocks, pool.num_held),
        busy_s=metrics.busy_s,
        prompt_tokens=metrics.prompt_tokens,
        cached_prompt_tokens=metrics.cached_prompt_tokens,
        computed_prompt_tokens=metrics.computed_prompt_tokens,
        prefilled_tokens=metrics.prefilled_tokens,
        generated_tokens=metrics.generated_tokens,
        block_copies=kv.num_copies,
        evicted_blocks=kv.num_evicted,
        swapped_in_blocks=kv.num_swapped_in,
        swapped_out_blocks=metrics.swapped_out_blocks,
        preemptions=scheduler.num_preemptions,
        decode_tokens_per_s=metrics.tokens_per_s(now_s),
        ttft_samples=metrics.ttft.samples(),
        inter_token_samples=metrics.inter_token.samples(),
        runner_note=runner_note,
        dtype=dtype,
    )


def _view(sequence: Sequence, scheduler: Scheduler, queue_position: int | None) -> SequenceView:
    pool = scheduler.kv.pool
    shared = sum(pool.refs(block) > 1 for block in sequence.block_table)
    state = "decode" if sequence.is_decoding else "prefill"
    return SequenceView(
        request_id=sequence.request.id,
        chat_id=sequence.request.chat_id,
        state=state if sequence.status is Status.RUNNING else "waiting",
        queue_position=queue_position,
        num_tokens=len(sequence.tokens),
        num_computed=sequence.num_computed,
        shared_blocks=shared,
        own_blocks=len(sequence.block_table) - shared,
    )


def _filled_slots(scheduler: Scheduler) -> int:
    """Return how many slots of held blocks have KV: all of those in the tree, part of the others.

    What is not in the tree belongs to one sequence, or waits to be copied for one.
    """
    pool, size = scheduler.kv.pool, scheduler.kv.block_size
    num_open = num_filled = 0
    for sequence in scheduler.running:
        num_open += len(sequence.block_table) - sequence.num_published
        num_filled += sequence.num_computed - sequence.num_published * size
    copied = {
        s.pending_copy.source: s.num_computed % size
        for s in scheduler.running
        if s.pending_copy is not None and not pool.is_in_tree(s.pending_copy.source)
    }
    if copied:
        # a block of a sequence that lives is counted; one whose sequence has ended is not
        own = {b for s in scheduler.running for b in s.block_table[s.num_published :]}
        for block, num_tokens in copied.items():
            if block not in own:
                num_open += 1
                num_filled += num_tokens
    return (pool.num_held - num_open) * size + num_filled
