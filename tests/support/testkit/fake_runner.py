"""A runner without a model: the KV of a token is the token, and an answer sums up its history.

The next token is a checksum of what was gathered through the block table. A single token read
from a wrong, stale or unwritten slot changes the answer, so equality with `expected_answer` proves
that a sequence reads exactly its own history, whatever the scheduler did to it.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS
from localpaged.engine.step_plan import (
    UNKNOWN_TOKEN,
    Candidate,
    PlannedRow,
    RowResult,
    SequenceId,
    StepPlan,
    StepResult,
)

VOCAB_SIZE = 256
BEAM_VOCAB_SIZE = 24
UNWRITTEN = -1


def next_token(history: Sequence[int], branch: int = 0) -> int:
    """Return the token that follows `history` in a branch."""
    digest = hashlib.blake2b(repr((list(history), branch)).encode(), digest_size=2).digest()
    return int.from_bytes(digest) % VOCAB_SIZE


def next_candidates(history: Sequence[int], count: int) -> tuple[Candidate, ...]:
    """Return tokens that may follow `history`, with scores that depend on all of it."""
    scored = [
        Candidate(token, -next_token([*history, token]) / 32 - token / 1e4)
        for token in range(BEAM_VOCAB_SIZE)
    ]
    return tuple(sorted(scored, key=lambda c: -c.logprob)[:count])


def expected_answer(prompt: Sequence[int], num_tokens: int, branch: int = 0) -> list[int]:
    """Return what an undisturbed run answers."""
    history = list(prompt)
    for _ in range(num_tokens):
        history.append(next_token(history, branch))
    return history[len(prompt) :]


def text_of(data: bytes) -> str:
    """Return the text of an answer's bytes: what ends inside a character ends before it."""
    return codecs.getincrementaldecoder("utf-8")(errors="replace").decode(data)


def expected_beams(prompt: Sequence[int], width: int, num_tokens: int) -> list[list[int]]:
    """Return the best beams by the plain definition: histories and sums, no blocks."""
    beams: list[tuple[list[int], float]] = [([], 0.0)]
    for _ in range(num_tokens):
        grown = [
            ([*answer, c.token_id], score + c.logprob)
            for answer, score in beams
            for c in next_candidates([*prompt, *answer], 2 * width)
        ]
        beams = sorted(grown, key=lambda beam: -beam[1])[:width]
    return [answer for answer, _ in beams]


class FakeRunner:
    """Computes plans over a list of slots. `before_run`, `after_run` may raise to fail a step."""

    def __init__(
        self,
        num_blocks: int,
        *,
        block_size: int = 16,
        before_run: Callable[[StepPlan], None] = lambda plan: None,
        after_run: Callable[[StepPlan], None] = lambda plan: None,
        sample: Callable[[str, Sequence[int]], RowResult] | None = None,
        candidates: Callable[[Sequence[int], int], tuple[Candidate, ...]] | None = None,
    ) -> None:
        self._block_size = block_size
        self._slots = [UNWRITTEN] * ((num_blocks + NUM_RESERVED_BLOCKS) * block_size)
        self._host: dict[int, list[int]] = {}
        self._before_run = before_run
        self._after_run = after_run
        self._sample = sample
        self._candidates = candidates or next_candidates
        self.plans: list[StepPlan] = []

    @property
    def num_computed_tokens(self) -> int:
        """Tokens that went through the model, over all steps."""
        return sum(plan.num_tokens for plan in self.plans)

    def run(self, plan: StepPlan) -> StepResult:
        self._before_run(plan)
        return self.compute(plan)

    def compute(self, plan: StepPlan) -> StepResult:
        """Do what the plan says."""
        self.plans.append(plan)
        size = self._block_size
        self._swap(plan)
        blocks = [self._slots[c.source * size : (c.source + 1) * size] for c in plan.copies]
        for copy, block in zip(plan.copies, blocks, strict=True):
            self._slots[copy.target * size : (copy.target + 1) * size] = block
        written: set[int] = set()
        for row in plan.rows:
            assert len(row.block_table) == -(-row.end // size)
            for position, token_id in zip(range(row.start, row.end), row.token_ids, strict=True):
                slot = row.block_table[position // size] * size + position % size
                assert slot not in written, "two rows write one slot"
                written.add(slot)
                self._slots[slot] = token_id
        self._after_run(plan)
        results = [
            self._decide(row, self._gather(row.block_table, row.end)) if row.needs_logits else None
            for row in plan.rows
        ]
        return StepResult(tuple(results))

    def _decide(self, row: PlannedRow, history: Sequence[int]) -> RowResult:
        tokens: list[int] = []
        for known in range(len(history) - row.num_drafts, len(history)):
            tokens += self._draw(row, history[:known]).token_ids
            if tokens[-1] != history[known]:
                return RowResult(tuple(tokens))
        last = self._draw(row, history)
        return replace(last, token_ids=(*tokens, *last.token_ids)) if tokens else last

    def _draw(self, row: PlannedRow, history: Sequence[int]) -> RowResult:
        if row.num_candidates:
            return RowResult(candidates=self._candidates(history, row.num_candidates))
        if self._sample is not None:
            return self._sample(row.request_id, history)
        return RowResult(tuple(next_token(history, draw.branch) for draw in row.draws))

    def _swap(self, plan: StepPlan) -> None:
        size = self._block_size
        for move in plan.swap_outs:
            self._host[move.slot] = self._slots[move.block * size : (move.block + 1) * size]
        blocks = [move.block for move in plan.swap_ins]
        assert len(blocks) == len(set(blocks)), "two moves into one block"
        assert not {m.slot for m in plan.swap_ins} & {m.slot for m in plan.swap_outs}
        for move in plan.swap_ins:
            self._slots[move.block * size : (move.block + 1) * size] = self._host[move.slot]

    def _gather(self, block_table: Sequence[int], num_tokens: int) -> list[int]:
        size = self._block_size
        history = [self._slots[b * size + offset] for b in block_table for offset in range(size)]
        return history[:num_tokens]


class FakeFlight:
    """A step of a FlyingFakeRunner; what breaks while it runs is raised when it is waited for."""

    def __init__(self, plan: StepPlan, outcome: StepResult | Exception) -> None:
        self._plan, self._outcome = plan, outcome
        self.told: tuple[PlannedRow, ...] = ()
        self._is_open = any(row.is_open for row in plan.rows)

    @property
    def has_draws(self) -> bool:
        return not self._is_open

    def decide(self, rows: Sequence[PlannedRow]) -> None:
        assert [row.sequence_id for row in rows] == [row.sequence_id for row in self._plan.rows]
        self.told = tuple(rows)
        self._is_open = False

    def wait(self) -> StepResult:
        assert not self._is_open, "nobody said what the draws follow from"
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def token_of(self, sequence_id: SequenceId) -> int:
        """Return what a sequence drew; a device has some number there, whatever went wrong."""
        if isinstance(self._outcome, Exception):
            return 0
        results = zip(self._plan.rows, self._outcome.rows, strict=True)
        drawn = next(r for row, r in results if row.sequence_id == sequence_id)
        assert drawn is not None
        return drawn.token_ids[0] if drawn.token_ids else 0


class FlyingFakeRunner(FakeRunner):
    """Implements FlyingRunner: a launched step is done at once, and nobody knows.

    `before_run` breaks the launch, `after_run` the step under way. `num_ahead` counts the steps
    that were launched before the one before them was waited for.
    """

    num_ahead = 0
    note = ""

    def run(self, plan: StepPlan) -> StepResult:
        assert all(UNKNOWN_TOKEN not in row.token_ids for row in plan.rows)
        return super().run(plan)

    def launch(self, plan: StepPlan, *, after: FakeFlight | None = None) -> FakeFlight:
        self._before_run(plan)
        rows = []
        for row in plan.rows:
            if UNKNOWN_TOKEN in row.token_ids:
                assert after is not None and len(row.token_ids) == 1
                row = replace(row, token_ids=(after.token_of(row.sequence_id),))
            rows.append(row)
        self.num_ahead += after is not None
        known = replace(plan, rows=tuple(rows))
        try:
            return FakeFlight(plan, self.compute(known))
        except Exception as error:
            return FakeFlight(plan, error)
