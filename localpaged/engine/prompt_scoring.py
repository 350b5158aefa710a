"""Log probabilities of prompts on a device: begun with the step, told when it has landed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from localpaged.engine.logprobs import SLICE_ROWS, look_up, tell
from localpaged.engine.sampler import NOT_FINITE
from localpaged.engine.step_plan import PlannedRow, PromptScores, RowResult


@dataclass(frozen=True, slots=True)
class Scored:
    """What was begun to be measured: tensors by name, and the rows that it is of."""

    tensors: Mapping[str, torch.Tensor]
    asked: Mapping[int, PromptScores]

    def add_to(
        self, results: list[RowResult | None], host: Mapping[str, np.ndarray]
    ) -> list[RowResult | None]:
        """Return the rows' results with what was measured, from the host's copies of tensors."""
        for i, scores in self.asked.items():
            result = results[i] or RowResult()
            if result.error is not None or not host[f"{i} is finite"].all():
                results[i] = NOT_FINITE
                continue
            columns = (host[f"{i} {name}"].tolist() for name in ("own", "ids", "likeliest"))
            logprobs = tuple(
                tell(token_id, own, tuple(zip(ids, likeliest, strict=True)))
                for token_id, own, ids, likeliest in zip(scores.next_ids, *columns, strict=True)
            )
            results[i] = replace(result, prompt_logprobs=logprobs)
        return results


def scored_ids(rows: Sequence[PlannedRow]) -> dict[str, np.ndarray]:
    """Return which tokens are to be measured, by the names that `score_later` knows."""
    return {
        f"{i} next": np.array(row.prompt_scores.next_ids, dtype=np.int64)
        for i, row in enumerate(rows)
        if row.prompt_scores is not None
    }


def score_later(
    hidden: torch.Tensor,
    rows: Sequence[PlannedRow],
    next_ids: Mapping[str, torch.Tensor],
    *,
    logits_of: Callable[[torch.Tensor], torch.Tensor],
    pad: Callable[[torch.Tensor], None],
) -> Scored:
    """Begin to measure what `rows`, whose hidden states [tokens, hidden] these are, ask for.

    `next_ids` are their `scored_ids`. `pad` rules out logits that stand for no token.
    """
    tensors: dict[str, torch.Tensor] = {}
    asked: dict[int, PromptScores] = {}
    first = 0
    for i, row in enumerate(rows):
        scores = row.prompt_scores
        if scores is not None:
            asked[i] = scores
            start = first + scores.offset
            own = hidden[start : start + len(scores.next_ids)]
            measured = _measure(own, next_ids[f"{i} next"], scores, logits_of, pad)
            tensors |= {f"{i} {name}": tensor for name, tensor in measured.items()}
        first += len(row.token_ids)
    return Scored(tensors, asked)


def _measure(
    hidden: torch.Tensor,
    next_ids: torch.Tensor,
    scores: PromptScores,
    logits_of: Callable[[torch.Tensor], torch.Tensor],
    pad: Callable[[torch.Tensor], None],
) -> dict[str, torch.Tensor]:
    parts: list[tuple[torch.Tensor, ...]] = []
    for own, chosen in zip(hidden.split(SLICE_ROWS), next_ids.split(SLICE_ROWS), strict=True):
        logits = logits_of(own)
        pad(logits)
        is_finite = logits.amax(dim=-1).isfinite()
        found = look_up(logits.log_softmax(-1), chosen, scores.num_alternatives)
        parts.append((*found, is_finite))
    names = ("own", "likeliest", "ids", "is finite")
    return {
        name: torch.cat(part) for name, part in zip(names, zip(*parts, strict=True), strict=True)
    }
