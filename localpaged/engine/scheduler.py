"""Scheduler: which tokens the next step computes. No torch; one plan a step.

There are no phases: a step hands out tokens so that every sequence's computed tokens catch up
with its known ones. Decodes come first, prompts fill the rest in chunks (chunked prefill,
SARATHI, arXiv 2308.16369), and whoever arrives joins at the next step (continuous batching).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from localpaged.engine.draw_terms import with_terms
from localpaged.engine.fair_share import ChatKey
from localpaged.engine.kv_manager import KVManager
from localpaged.engine.pace import Pace
from localpaged.engine.params import EngineConfig, Request
from localpaged.engine.prompt_share import PromptShare
from localpaged.engine.sequence import Sequence, Status
from localpaged.engine.speculate import DraftCosts
from localpaged.engine.step_plan import (
    Draw,
    PlannedRow,
    PromptScores,
    SequenceId,
    StepPlan,
    StepResult,
)
from localpaged.engine.swap_pace import SwapPace

SMALLEST_CHUNK_TOKENS = 4
"""What a prompt gets of a step beside streaming answers, however slow reading is."""


class Scheduler:
    """Queues and plans. Engine thread only.

    Invariant: between steps a sequence is in exactly one of `waiting` (holds no block) and
    `running`. State changes in `plan` (admission, preemption), `advance`, `fork`, `finish`.
    """

    def __init__(
        self, config: EngineConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        assert config.context_length <= config.num_blocks * config.block_size
        self.config = config
        self.pace = Pace(
            stretch=config.stream_stretch,
            stall_s=config.stream_stall_s,
            smallest_tokens=SMALLEST_CHUNK_TOKENS,
            first_tokens=config.block_size,
            largest_tokens=config.step_tokens,
        )
        self.swap_pace = SwapPace(config.host_use, self.pace, block_size=config.block_size)
        self.kv = KVManager(
            config.num_blocks,
            block_size=config.block_size,
            initial_blocks=config.initial_blocks,
            slab_blocks=config.slab_blocks,
            host_blocks=config.host_blocks,
            swap_pace=self.swap_pace,
            clock=clock,
        )
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.draft_costs = DraftCosts()
        self.num_drafted = 0
        self.num_drafts_right = 0
        self.num_preemptions = 0
        self.foreground_chat: ChatKey = ""
        self._prompt_share = PromptShare(self.kv, self.pace)
        self._num_sequences = 0

    @property
    def sequences(self) -> Iterator[Sequence]:
        """All live sequences: the running ones, then the queue in its order."""
        yield from self.running
        yield from self.waiting

    def add(
        self,
        request: Request,
        *,
        seed: int,
        num_candidates: int = 0,
        end_ids: frozenset[int] = frozenset(),
        is_paused: bool = False,
    ) -> Sequence:
        """Put a request's first sequence into the queue."""
        sequence = Sequence(
            request,
            sequence_id=self._new_id(),
            seed=seed,
            block_size=self.config.block_size,
            num_candidates=num_candidates,
            end_ids=end_ids,
        )
        sequence.is_paused = is_paused
        self.waiting.append(sequence)
        return sequence

    def fork(self, parent: Sequence, *, branch: int) -> Sequence:
        """Return a new sequence with the parent's tokens, and its KV if there is room for it."""
        child = parent.fork(sequence_id=self._new_id(), branch=branch)
        if self.kv.fork(parent, child):
            child.transition(Status.RUNNING)
            self.running.append(child)
        else:
            # Its full blocks are cached: admission will find them and compute the short rest.
            self.waiting.insert(0, child)
        return child

    def pin(self, key: str, tokens: Iterable[int]) -> None:
        """Keep the KV of a prefix; raises NoRoom when no full context would fit beside all pins."""
        self.kv.pin(key, tokens, reserved_blocks=self.context_blocks)

    def pin_branch(self, key: str, node_id: int) -> None:
        """Keep the prefix that ends with a branch of the tree; raises NoRoom, as `pin` does."""
        self.kv.pin_branch(key, node_id, reserved_blocks=self.context_blocks)

    def plan(self) -> StepPlan | None:
        """Decide the next step, or return None when nothing waits or runs."""
        rows: dict[SequenceId, PlannedRow] = {}
        num_preempted = self.num_preemptions
        price = self.draft_price()
        for sequence in [s for s in self.running if s.num_todo == 1 and not s.is_paused]:
            self._plan_row(sequence, 1, rows, draft_price=price)
        grants = self._prompt_share.share_out(
            [s for s in self.running if s.num_todo > 1 and not s.is_paused],
            self._admissible() if self.num_preemptions == num_preempted else [],
            room_tokens=self.config.step_tokens - len(rows),
            num_decodes=len(rows),
            foreground=self.foreground_chat,
            admit=self._admit,
        )
        for sequence, num_tokens in grants:
            self._plan_row(sequence, num_tokens, rows)
        if not rows:
            return self._plan_without_paused()
        ordered = sorted(rows.values(), key=lambda row: len(row.token_ids) > 1)
        by_id = {s.id: s for s in self.running}
        planned = [by_id[row.sequence_id] for row in ordered]
        return StepPlan(
            tuple(ordered),
            tuple(s.pending_copy for s in planned if s.pending_copy is not None),
            pool_blocks=self.kv.pool.num_blocks,
            swap_outs=self.kv.host.take_moves(),
            swap_ins=tuple(move for s in planned for move in s.swap_ins),
        )

    def advance(self, plan: StepPlan, result: StepResult) -> list[Sequence]:
        """Take over which rows were computed; return the sequences of all rows."""
        self.kv.host.confirm(plan.swap_outs, has_moved=result.has_swapped_out)
        by_id = {s.id: s for s in self.running}
        planned = [by_id[row.sequence_id] for row in plan.rows]
        for sequence, row, row_result in zip(planned, plan.rows, result.rows, strict=True):
            sequence.has_failed = row_result is not None and row_result.error is not None
            if not sequence.has_failed:
                self.kv.advance(sequence, len(row.token_ids) - row.num_drafts)
                if row.num_drafts and row_result is not None:
                    num_right = len(row_result.token_ids) - 1
                    sequence.drafter.learn(num_drafts=row.num_drafts, num_right=num_right)
                    self.num_drafted += row.num_drafts
                    self.num_drafts_right += num_right
                if row.prompt_scores is not None:
                    sequence.num_scored += len(row.prompt_scores.next_ids)
        return planned

    def learn(self, plan: StepPlan, *, seconds: float, swap_s: float = 0.0) -> None:
        """Take into account how long a plan took, `swap_s` of it for moves to and from the host."""
        num_moves = len(plan.swap_outs) + len(plan.swap_ins)
        self.swap_pace.learn(num_blocks=num_moves, seconds=swap_s)
        own_s = seconds - swap_s
        num_decodes = sum(len(row.token_ids) - row.num_drafts == 1 for row in plan.rows)
        num_drafts = sum(row.num_drafts for row in plan.rows)
        num_prompt_tokens = plan.num_tokens - num_decodes - num_drafts
        if num_prompt_tokens == 0:
            self.draft_costs.learn(num_decodes=num_decodes, num_drafts=num_drafts, seconds=own_s)
        if num_drafts == 0:
            self.pace.learn(
                num_decodes=num_decodes,
                num_prompt_tokens=num_prompt_tokens,
                context=max((row.start for row in plan.rows if len(row.token_ids) > 1), default=0),
                seconds=own_s,
            )

    def accept_draft(self, sequence: Sequence) -> None:
        """Take over that the KV of a draft, now the sequence's last token, was computed."""
        self.kv.advance(sequence, 1)

    def finish(self, sequence: Sequence) -> None:
        """Take a sequence out and give its blocks back."""
        (self.running if sequence.status is Status.RUNNING else self.waiting).remove(sequence)
        self.kv.release(sequence)
        sequence.transition(Status.FINISHED)

    def queue(self) -> list[Sequence]:
        """Return who waits, in the order in which they are likely to be served."""
        rank = {chat: place for place, chat in enumerate(self._prompt_share.order())}
        return sorted(
            self.waiting,
            key=lambda s: (s.chat != self.foreground_chat, rank.get(s.chat, len(rank))),
        )

    def check(self) -> None:
        """Recompute every invariant; between steps only."""
        assert all(s.status is Status.WAITING for s in self.waiting)
        assert all(s.status is Status.RUNNING for s in self.running)
        ids = [s.id for s in self.sequences]
        assert len(ids) == len(set(ids))
        self.kv.check(self.sequences)

    def _plan_without_paused(self) -> StepPlan | None:
        """Make room: paused beams hold the blocks that the ones they wait for need."""
        paused = [s for s in self.running if s.is_paused]
        if not paused:
            assert not self._admissible(), "nothing could be planned"
            return None
        self._preempt(paused[-1])
        return self.plan()

    @property
    def context_blocks(self) -> int:
        """Blocks of one full context."""
        return -(-self.config.context_length // self.config.block_size)

    def _admissible(self) -> list[Sequence]:
        return [s for s in self.waiting if not s.is_paused]

    def _new_id(self) -> SequenceId:
        self._num_sequences += 1
        return self._num_sequences

    def _admit(self, sequence: Sequence) -> bool:
        if len(self.running) >= self.config.max_running or self._is_prefix_in_progress(sequence):
            return False
        if not self.kv.admit(sequence, num_tokens=1, reserved_blocks=self.blocks_still_needed()):
            return False
        if sequence.num_cached_at_start is None:
            sequence.num_cached_at_start = sequence.num_computed
        self.waiting.remove(sequence)
        self.running.append(sequence)
        sequence.transition(Status.RUNNING)
        return True

    @property
    def is_host_needed(self) -> bool:
        """Whether the next step may let somebody in, or moves blocks to host memory."""
        has_place = len(self.running) < self.config.max_running
        return (has_place and bool(self._admissible())) or self.kv.host.has_moves

    def draft_price(self) -> float | None:
        """What a draft costs in tokens; None where drafts would take room from others."""
        is_reading = any(s.num_todo > 1 and not s.is_paused for s in self.running)
        if self.config.max_drafts == 0 or is_reading or self._admissible():
            return None
        return self.draft_costs.price(sum(not s.is_paused for s in self.running))

    def _drafts(self, sequence: Sequence, price: float | None) -> tuple[int, ...]:
        """Guess what follows a decoding sequence and make room for it, where that is worth it."""
        if price is None or not sequence.may_draft or sequence.status is not Status.RUNNING:
            return ()
        drafts = sequence.guess(price, self.config)
        # Nobody shall lose blocks to a guess.
        end = sequence.num_computed + 1 + len(drafts)
        missing = -(-end // self.kv.block_size) - len(sequence.block_table)
        if not drafts or missing > self.kv.num_available - len(self.running):
            return ()
        return drafts if self.kv.extend(sequence, num_tokens=1 + len(drafts)) else ()

    def _plan_row(
        self,
        sequence: Sequence,
        num_tokens: int,
        rows: dict[SequenceId, PlannedRow],
        *,
        draft_price: float | None = None,
    ) -> None:
        """Plan tokens of a running sequence; preempt others, or itself, when blocks run out."""
        if sequence.status is not Status.RUNNING:
            return
        drafts = self._drafts(sequence, draft_price)
        while not self.kv.extend(sequence, num_tokens=num_tokens):
            victim = self._victim()
            self._preempt(victim)
            rows.pop(victim.id, None)
            if victim is sequence:
                return
        start, end = sequence.num_computed, sequence.num_computed + num_tokens
        is_at_end = end == len(sequence.tokens)
        row = PlannedRow(
            sequence_id=sequence.id,
            request_id=sequence.request.id,
            token_ids=(*sequence.tokens[start:end], *drafts),
            num_drafts=len(drafts),
            start=start,
            block_table=tuple(sequence.block_table),
            sampling=sequence.request.sampling,
            draws=_draws(sequence) if is_at_end else (),
            num_candidates=sequence.num_candidates if is_at_end else 0,
            num_prompt=sequence.num_prompt,
            prompt_scores=_prompt_scores(sequence, end),
        )
        rows[sequence.id] = with_terms(row, sequence) if is_at_end else row

    def blocks_still_needed(self) -> int:
        """Blocks that the running sequences need for their known tokens and one more each."""
        size = self.kv.block_size
        return sum(len(s.tokens) // size + 1 - len(s.block_table) for s in self.running)

    def _is_prefix_in_progress(self, sequence: Sequence) -> bool:
        """Whether a running prompt is about to compute a block that this one shares.

        Waiting for it costs one step and saves computing the same prefix twice
        (in-batch prefix caching, SGLang).
        """
        mine = sequence.keys(sequence.num_reusable)
        for other in self.running:
            following = other.num_published + 1
            theirs = other.keys(len(other.tokens))[:following]
            if len(theirs) == following and mine[:following] == theirs:
                return True
        return False

    def _victim(self) -> Sequence:
        """The newest background sequence, else the newest."""
        background = [s for s in self.running if s.chat != self.foreground_chat]
        return (background or self.running)[-1]

    def _preempt(self, sequence: Sequence) -> None:
        """Take the blocks away; what was published is found again, here or in host memory."""
        self.kv.release(sequence)
        self.running.remove(sequence)
        sequence.transition(Status.WAITING)
        # Before everything that never ran: its text is on somebody's screen.
        self.waiting.insert(0, sequence)
        self.num_preemptions += 1


def _draws(sequence: Sequence) -> tuple[Draw, ...]:
    """The draws of a sequence's last token: one, or the first ones of all branches."""
    if sequence.num_candidates:
        return ()
    index = sequence.num_generated
    num_branches = sequence.request.num_samples if index == 0 else 1
    return tuple(
        Draw(sequence.branch + extra, sequence.seed, index) for extra in range(num_branches)
    )


def _prompt_scores(sequence: Sequence, end: int) -> PromptScores | None:
    """What is to be told of the prompt when the tokens before `end` are computed."""
    num_alternatives = sequence.request.prompt_logprobs
    next_ids = sequence.tokens[sequence.num_scored + 1 : min(end + 1, sequence.num_prompt)]
    if num_alternatives is None or not next_ids:
        return None
    offset = sequence.num_scored - sequence.num_computed
    return PromptScores(offset, tuple(next_ids), num_alternatives)
