"""Counters since start and the snapshot made of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from localpaged.engine.scheduler import Scheduler
from localpaged.engine.sequence import Sequence, Status
from localpaged.engine.snapshot import EngineSnapshot, SequenceView
from localpaged.engine.step_plan import PlannedRow

RATE_WINDOW_S = 2.0


@dataclass(slots=True)
class Metrics:
    """Always-on counters. Engine thread only."""

    steps: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    computed_prompt_tokens: int = 0
    generated_tokens: int = 0
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def count_generated(self, num_tokens: int, *, now_s: float) -> None:
        """Count the tokens that one step sampled."""
        self.generated_tokens += num_tokens
        self._recent.append((now_s, num_tokens))

    def count_prompt(self, sequence: Sequence, row: PlannedRow) -> None:
        """Count the prompt tokens that a row computed, and at its first one what was cached."""
        if row.start == sequence.num_cached_at_start:
            self.prompt_tokens += sequence.num_prompt
            self.cached_prompt_tokens += row.start
        self.computed_prompt_tokens += max(0, min(row.end, sequence.num_prompt) - row.start)

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
) -> EngineSnapshot:
    """Return the engine's state between two steps as plain values."""
    kv, pool = scheduler.kv, scheduler.kv.pool
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
        steps=metrics.steps,
        prompt_tokens=metrics.prompt_tokens,
        cached_prompt_tokens=metrics.cached_prompt_tokens,
        computed_prompt_tokens=metrics.computed_prompt_tokens,
        generated_tokens=metrics.generated_tokens,
        block_copies=kv.num_copies,
        evicted_blocks=kv.num_evicted,
        swapped_in_blocks=kv.num_swapped_in,
        preemptions=scheduler.num_preemptions,
        decode_tokens_per_s=metrics.tokens_per_s(now_s),
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
