"""What a draw follows from beside its logits: the tokens before it, barred ends, a grammar."""

from __future__ import annotations

from dataclasses import replace

from localpaged.engine.sequence import Sequence
from localpaged.engine.step_plan import PlannedRow


def has_terms(sequence: Sequence, *, num_generated: int) -> bool:
    """Return whether the draw behind so many tokens of an answer has terms of its own."""
    sampling = sequence.request.sampling
    is_short = num_generated < sampling.min_tokens
    return sampling.needs_history or is_short or sequence.matcher is not None


def with_terms(row: PlannedRow, sequence: Sequence) -> PlannedRow:
    """Return a row that decides something with the terms of its sequence, as it stands now."""
    if not row.is_open and not has_terms(sequence, num_generated=sequence.num_generated):
        return row
    sampling = sequence.request.sampling
    is_short = sequence.num_generated < sampling.min_tokens
    return replace(
        row,
        is_open=False,
        history=tuple(sequence.tokens) if sampling.needs_history else (),
        barred_ids=tuple(sequence.end_ids) if is_short else (),
        allowed=None if sequence.matcher is None else sequence.matcher.allowed,
    )
