"""Sampler: what follows from the logits of a step's rows: tokens, or candidates of a beam."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from localpaged.engine.drawing import DrawTask, draw_tokens
from localpaged.engine.penalties import Adjusted, adjust
from localpaged.engine.step_plan import Candidate, PlannedRow, RowResult

NOT_FINITE = RowResult(error="The model produced numbers that are not finite.")


def sample(
    logits: torch.Tensor, rows: Sequence[PlannedRow], *, padding_ids: torch.Tensor
) -> list[RowResult]:
    """Decide what follows each of `rows` from its logits [rows, vocab] float32, changed in place.

    `padding_ids` int64 only round the vocabulary up and are never chosen. A row whose logits are
    not finite gets an error and leaves the others alone.
    """
    logits.index_fill_(1, padding_ids, float("-inf"))
    # Infinite logits are legal (masked ids); a row is broken when its maximum is not a number.
    is_sound = logits.amax(dim=-1).isfinite().tolist()
    results = [NOT_FINITE] * len(rows)
    beams = [i for i, row in enumerate(rows) if is_sound[i] and row.num_candidates]
    if beams:
        # As in transformers, what changes a beam's scores changes log probabilities.
        logits[beams] = logits[beams].log_softmax(-1)
    adjust(logits, [_adjusted(place, row) for place, row in enumerate(rows) if is_sound[place]])
    drawing = [i for i, row in enumerate(rows) if is_sound[i] and row.draws]
    tasks = [(i, DrawTask(draw, rows[i].sampling)) for i in drawing for draw in rows[i].draws]
    if tasks:
        places = [i for i, _ in tasks]
        own = logits if places == list(range(len(rows))) else logits[places]
        tokens = iter(draw_tokens(own, [task for _, task in tasks]))
        for i in drawing:
            results[i] = RowResult(token_ids=tuple(next(tokens) for _ in rows[i].draws))
    for i in beams:
        results[i] = RowResult(candidates=_likeliest(logits[i], rows[i].num_candidates))
    return results


def _adjusted(place: int, row: PlannedRow) -> Adjusted:
    return Adjusted(place, row.sampling, row.history, row.num_prompt, row.barred_ids)


def _likeliest(scores: torch.Tensor, count: int) -> tuple[Candidate, ...]:
    """Return the best of the next tokens' scores, best first."""
    logprobs, ids = scores.topk(min(count, len(scores)))
    return tuple(
        Candidate(token_id, logprob)
        for token_id, logprob in zip(ids.tolist(), logprobs.tolist(), strict=True)
        if logprob > float("-inf")
    )
