"""StepPlan: what one forward pass must do. Immutable; made by the scheduler, read by the runner."""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.engine.events import TokenLogprob
from localpaged.engine.params import RequestId, SamplingParams

SequenceId = int
"""Tells the live sequences of an engine apart; a request can have several."""

UNKNOWN_TOKEN = -1
"""Stands for a token that the step before draws and that only the device will know in time."""


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy the KV of one block, all layers, before anything is written."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class BlockMove:
    """Copy the KV of one block, all layers, between the pool and a slot of host memory."""

    block: int
    slot: int


@dataclass(frozen=True, slots=True)
class Draw:
    """One token to draw: number `index` of the answer of `branch`, whose noise `seed` decides."""

    branch: int
    seed: int
    index: int


@dataclass(frozen=True, slots=True)
class PromptScores:
    """Measure how likely `next_ids` are, each after one of the row's tokens, from `offset` on."""

    offset: int
    next_ids: tuple[int, ...]
    num_alternatives: int


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One sequence's share of the step: compute `token_ids` from position `start` on.

    `block_table` covers start + len(token_ids) tokens. `draws`: the last token is the sequence's
    last, so its logits choose what follows; several draws begin the branches of one prompt.
    `num_candidates` asks for that many likeliest next tokens instead (beam search).
    `history` has all tokens of the sequence, the first `num_prompt` of them its prompt, where its
    sampling looks back. `barred_ids` end an answer that is not long enough to end yet.
    `allowed` has a bit for each token that may be drawn, least significant first; None is all.
    Where `is_open` these three follow from a token that is not known when the step is launched, and
    are told later.
    The last `num_drafts` of `token_ids` are guesses of what will be drawn.
    """

    sequence_id: SequenceId
    request_id: RequestId
    token_ids: tuple[int, ...]
    start: int
    block_table: tuple[int, ...]
    sampling: SamplingParams
    draws: tuple[Draw, ...] = ()
    num_candidates: int = 0
    history: tuple[int, ...] = ()
    num_prompt: int = 0
    barred_ids: tuple[int, ...] = ()
    num_drafts: int = 0
    prompt_scores: PromptScores | None = None
    allowed: bytes | None = None
    is_open: bool = False

    @property
    def end(self) -> int:
        """Tokens whose KV exists after the step."""
        return self.start + len(self.token_ids)

    @property
    def needs_logits(self) -> bool:
        """Whether the row's last token decides anything."""
        return bool(self.draws) or self.num_candidates > 0

    @property
    def num_logits(self) -> int:
        """How many of the row's last tokens decide something."""
        return 1 + self.num_drafts if self.needs_logits else 0

    @property
    def is_decode(self) -> bool:
        """Whether the row is one token and what follows it is one draw."""
        return len(self.token_ids) == len(self.draws) == 1 and self.prompt_scores is None

    @property
    def is_plain(self) -> bool:
        """Whether the row is one token and what follows it is one draw from its logits alone."""
        sampling = self.sampling
        is_untouched = not (self.history or self.barred_ids or sampling.logit_bias or self.is_open)
        is_alone = self.allowed is None and sampling.logprobs is None
        return self.is_decode and is_untouched and is_alone

    @property
    def drafts(self) -> tuple[int, ...]:
        """The guesses among `token_ids`."""
        return self.token_ids[len(self.token_ids) - self.num_drafts :]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A mixed batch: rows of one token first (decodes), then prefill chunks.

    `pool_blocks` is how many blocks the pool has by now, where it may have grown. What moves moves
    in this order: `swap_outs` read blocks that anything below may write; `swap_ins` write blocks
    of one row each from slots that no `swap_out` of the step writes; then `copies`, then the rows.
    """

    rows: tuple[PlannedRow, ...]
    copies: tuple[BlockCopy, ...]
    pool_blocks: int | None = None
    swap_outs: tuple[BlockMove, ...] = ()
    swap_ins: tuple[BlockMove, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Tokens computed by this step."""
        return sum(len(row.token_ids) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible next token and its log probability."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class RowResult:
    """What came out of a row's logits, or the reason why nothing did.

    `token_ids` has one token a draw; of a row with drafts, the drafts that were drawn and the token
    after them. `candidates` are the likeliest tokens, best first. `logprobs` and `prompt_logprobs`
    are there where they were asked for.
    """

    token_ids: tuple[int, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    error: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """One entry for every row of the plan; None for rows of which nothing is asked.

    `swap_s` is the time that moves took. Without `has_swapped_out` nobody knows whether the blocks
    of `swap_outs` reached host memory before they were written.
    """

    rows: tuple[RowResult | None, ...]
    swap_s: float = 0.0
    has_swapped_out: bool = True
