"""Scheduler: which tokens the next step computes. No torch; one plan a step.

There are no phases: a step hands out tokens so that every sequence's computed tokens catch up
with its known ones. Decodes come first, prompts fill the rest in chunks (chunked prefill,
SARATHI, arXiv 2308.16369), and whoever arrives joins at the next step (continuous batching).
"""

from __future__ import annotations

from collections.abc import Iterator

from localpaged.engine.kv_manager import KVManager
from localpaged.engine.params import EngineConfig, RequestId
from localpaged.engine.sequence import Sequence, Status
from localpaged.engine.step_plan import PlannedRow, StepPlan, StepResult


class Scheduler:
    """Queues and plans. Engine thread only.

    Invariant: between steps a sequence is in exactly one of `waiting` (holds no block) and
    `running`. State changes in `plan` (admission, preemption), `commit` and `finish` alone.
    """

    def __init__(self, config: EngineConfig) -> None:
        assert config.context_length <= config.num_blocks * config.block_size
        self.config = config
        self.kv = KVManager(config.num_blocks, block_size=config.block_size)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.num_preemptions = 0

    @property
    def sequences(self) -> Iterator[Sequence]:
        """All live sequences: the running ones, then the queue in its order."""
        yield from self.running
        yield from self.waiting

    def add(self, sequence: Sequence) -> None:
        """Put a sequence into the queue: the foreground chat's before others, else in order."""
        place = len(self.waiting)
        if sequence.request.is_foreground:
            while place and not self.waiting[place - 1].request.is_foreground:
                place -= 1
        self.waiting.insert(place, sequence)

    def plan(self) -> StepPlan | None:
        """Decide the next step, or return None when nothing waits or runs."""
        rows: dict[RequestId, PlannedRow] = {}
        num_preempted = self.num_preemptions
        for sequence in [s for s in self.running if s.is_decoding]:
            self._plan_row(sequence, 1, rows)
        budget = self.config.step_tokens - len(rows)
        if rows:
            budget = min(budget, self.config.stream_prefill_tokens)
        for sequence in [s for s in self.running if not s.is_decoding]:
            if budget > 0 and self._plan_row(sequence, min(budget, sequence.num_todo), rows):
                budget -= len(rows[sequence.request.id].token_ids)
        if self.num_preemptions == num_preempted:
            self._admit(budget, rows)
        if not rows:
            assert not self.running and not self.waiting, "nothing could be planned"
            return None
        ordered = sorted(rows.values(), key=lambda row: len(row.token_ids) > 1)
        planned = {s.request.id: s for s in self.running}
        copies = [planned[row.request_id].pending_copy for row in ordered]
        return StepPlan(tuple(ordered), tuple(c for c in copies if c is not None))

    def commit(self, plan: StepPlan, result: StepResult) -> None:
        """Take over what the step computed: KV exists, full blocks are published, tokens known."""
        by_id = {s.request.id: s for s in self.running}
        for row, row_result in zip(plan.rows, result.rows, strict=True):
            sequence = by_id[row.request_id]
            self.kv.advance(sequence, len(row.token_ids))
            if row_result is not None and row_result.token_id is not None:
                sequence.tokens.append(row_result.token_id)

    def finish(self, sequence: Sequence) -> None:
        """Take a sequence out and give its blocks back."""
        (self.running if sequence.status is Status.RUNNING else self.waiting).remove(sequence)
        self.kv.release(sequence)
        sequence.transition(Status.FINISHED)

    def check(self) -> None:
        """Recompute every invariant; between steps only."""
        assert all(s.status is Status.WAITING for s in self.waiting)
        assert all(s.status is Status.RUNNING for s in self.running)
        ids = [s.request.id for s in self.sequences]
        assert len(ids) == len(set(ids))
        self.kv.check(self.sequences)

    def _plan_row(
        self, sequence: Sequence, num_tokens: int, rows: dict[RequestId, PlannedRow]
    ) -> bool:
        """Plan tokens of a running sequence; preempt others, or itself, when blocks run out."""
        if sequence.status is not Status.RUNNING:
            return False
        while not self.kv.extend(sequence, num_tokens=num_tokens):
            victim = self._victim()
            self._preempt(victim)
            rows.pop(victim.request.id, None)
            if victim is sequence:
                return False
        start, end = sequence.num_computed, sequence.num_computed + num_tokens
        rows[sequence.request.id] = PlannedRow(
            request_id=sequence.request.id,
            token_ids=tuple(sequence.tokens[start:end]),
            start=start,
            block_table=tuple(sequence.block_table),
            is_sampled=end == len(sequence.tokens),
            sampling=sequence.request.sampling,
            seed=sequence.seed,
            sample_index=sequence.num_generated,
        )
        return True

    def _admit(self, budget: int, rows: dict[RequestId, PlannedRow]) -> None:
        for sequence in tuple(self.waiting):
            if budget <= 0 or len(self.running) >= self.config.max_running:
                return
            if self._is_prefix_in_progress(sequence):
                continue
            if not self.kv.admit(
                sequence, num_tokens=budget, reserved_blocks=self._blocks_still_needed()
            ):
                return
            if sequence.num_cached_at_start is None:
                sequence.num_cached_at_start = sequence.num_computed
            self.waiting.remove(sequence)
            self.running.append(sequence)
            sequence.transition(Status.RUNNING)
            num_tokens = min(budget, sequence.num_todo)
            self._plan_row(sequence, num_tokens, rows)
            budget -= num_tokens

    def _blocks_still_needed(self) -> int:
        """Blocks that the running sequences need for their known tokens and one more each."""
        size = self.kv.block_size
        return sum(len(s.tokens) // size + 1 - len(s.block_table) for s in self.running)

    def _is_prefix_in_progress(self, sequence: Sequence) -> bool:
        """Whether a running prompt is about to compute a block that this one shares.

        Waiting for it costs one step and saves computing the same prefix twice
        (in-batch prefix caching, SGLang).
        """
        mine = sequence.keys(len(sequence.tokens) - 1)
        for other in self.running:
            following = other.num_published + 1
            theirs = other.keys(len(other.tokens))[:following]
            if len(theirs) == following and mine[:following] == theirs:
                return True
        return False

    def _victim(self) -> Sequence:
        """The newest background sequence, else the newest."""
        background = [s for s in self.running if not s.request.is_foreground]
        return (background or self.running)[-1]

    def _preempt(self, sequence: Sequence) -> None:
        """Take the blocks away; what was published is usually found again on readmission."""
        self.kv.release(sequence)
        self.running.remove(sequence)
        sequence.transition(Status.WAITING)
        # Before everything that never ran: its text is on somebody's screen.
        self.waiting.insert(0, sequence)
        self.num_preemptions += 1
