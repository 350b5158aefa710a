"""Log probabilities of tokens under the model's own distribution, with the likeliest others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from localpaged.engine.events import TokenLogprob
from localpaged.engine.step_plan import PromptScores

LOGPROB_FLOOR = -9_999.0
"""Stands for the logarithm of zero: every number that is told is finite."""

SLICE_ROWS = 64
"""Positions of a prompt whose logits exist at a time: a vocabulary wide each."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Log probabilities [measured, vocab] float32 and which row of the logits each one is."""

    logprobs: torch.Tensor
    rows: dict[int, int]

    @staticmethod
    def of(logits: torch.Tensor, places: Sequence[int]) -> Measured:
        """Measure the rows of `logits` [rows, vocab] at `places`."""
        rows = {place: row for row, place in enumerate(places)}
        return Measured(logits[list(places)].log_softmax(-1), rows)


def report(
    measured: Measured, chosen: Sequence[tuple[int, int]], num_alternatives: int
) -> tuple[TokenLogprob, ...]:
    """Return what is told of each chosen (place, token id).

    The alternatives are the likeliest tokens, best first; the chosen one follows when it is not
    among them.
    """
    rows = measured.logprobs[[measured.rows[place] for place, _ in chosen]]
    return describe(rows, [token_id for _, token_id in chosen], num_alternatives)


def score_prompt(
    hidden: torch.Tensor,
    scores: PromptScores,
    logits_of: Callable[[torch.Tensor], torch.Tensor],
    *,
    padding_ids: torch.Tensor,
) -> tuple[TokenLogprob, ...] | None:
    """Return what is told of a prompt's tokens that follow hidden states [row tokens, hidden].

    None where the model's numbers are not finite.
    """
    told: list[TokenLogprob] = []
    for first in range(0, len(scores.next_ids), SLICE_ROWS):
        next_ids = scores.next_ids[first : first + SLICE_ROWS]
        start = scores.offset + first
        logits = logits_of(hidden[start : start + len(next_ids)])
        if len(padding_ids):  # it costs a look at all logits
            logits.index_fill_(1, padding_ids, float("-inf"))
        if not logits.amax(dim=-1).isfinite().all():
            return None
        told += describe(logits.log_softmax(-1), next_ids, scores.num_alternatives)
    return tuple(told)


def describe(
    logprobs: torch.Tensor, token_ids: Sequence[int], num_alternatives: int
) -> tuple[TokenLogprob, ...]:
    """Return what is told of `token_ids`, chosen by logprobs [tokens, vocab] float32."""
    chosen = torch.tensor(token_ids, dtype=torch.int64, device=logprobs.device)
    own, values, ids = look_up(logprobs, chosen, num_alternatives)
    return tuple(
        tell(token_id, logprob, tuple(zip(best_ids, best, strict=True)))
        for token_id, logprob, best_ids, best in zip(
            token_ids, own.tolist(), ids.tolist(), values.tolist(), strict=True
        )
    )


def look_up(
    logprobs: torch.Tensor, chosen: torch.Tensor, num_alternatives: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the log probabilities of `chosen` [tokens] int64, those of the likeliest, their ids.

    All stay where they are: [tokens] float32, [tokens, alternatives] float32 and int64, best first.
    """
    finite = logprobs.clamp(min=LOGPROB_FLOOR)
    own = finite.gather(1, chosen[:, None])[:, 0]
    values, ids = finite.topk(min(num_alternatives, finite.shape[-1]))
    return own, values, ids


def tell(token_id: int, logprob: float, likeliest: tuple[tuple[int, float], ...]) -> TokenLogprob:
    """Return what is told of a chosen token; it follows when it is not among the likeliest."""
    is_among = any(other == token_id for other, _ in likeliest)
    return TokenLogprob(
        token_id, logprob, likeliest if is_among else (*likeliest, (token_id, logprob))
    )
