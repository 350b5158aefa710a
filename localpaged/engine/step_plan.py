"""StepPlan: what one forward pass must do. Immutable; made by the scheduler, read by the runner."""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.engine.params import RequestId, SamplingParams


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy the KV of one block, all layers, before anything is written."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One sequence's share of the step: compute `token_ids` from position `start` on.

    `block_table` covers start + len(token_ids) tokens. `is_sampled`: the last of them is the
    sequence's last token, so its logits choose the next one, number `sample_index` of the answer.
    """

    request_id: RequestId
    token_ids: tuple[int, ...]
    start: int
    block_table: tuple[int, ...]
    is_sampled: bool
    sampling: SamplingParams
    seed: int
    sample_index: int

    @property
    def end(self) -> int:
        """Tokens whose KV exists after the step."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A mixed batch: rows of one token first (decodes), then prefill chunks."""

    rows: tuple[PlannedRow, ...]
    copies: tuple[BlockCopy, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens computed by this step."""
        return sum(len(row.token_ids) for row in self.rows)


@dataclass(frozen=True, slots=True)
class RowResult:
    """What came out of a sampled row: a token, or the reason why there is none."""

    token_id: int | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """One entry for every row of the plan; None for rows that are not sampled."""

    rows: tuple[RowResult | None, ...]
