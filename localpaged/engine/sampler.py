"""Sampler: the next token of every sampled row, from its logits.

A token is drawn by inverting the cumulative distribution at one uniform number, which follows
from the request's seed and the token's place in its answer alone. So a seed gives the same text
whatever else is in the batch, and after a preemption.
"""

from __future__ import annotations

import hashlib

import torch

from localpaged.engine.step_plan import PlannedRow, RowResult

FIRST_CANDIDATES = 256
"""Candidates tried before a nucleus (top-p) is searched in the whole vocabulary."""


def sample(
    logits: torch.Tensor, rows: list[PlannedRow], *, padding_ids: torch.Tensor
) -> list[RowResult]:
    """Choose a token for each of `rows` from logits [rows, vocab] float32, changed in place.

    `padding_ids` int64 only round the vocabulary up and are never chosen. A row whose logits are
    not finite gets an error and leaves the others alone.
    """
    logits.index_fill_(1, padding_ids, float("-inf"))
    # Infinite logits are legal (masked ids); a row is broken when its maximum is not a number.
    is_sound = logits.amax(dim=-1).isfinite().tolist()
    greedy = logits.argmax(dim=-1).tolist()
    results: list[RowResult] = []
    for index, row in enumerate(rows):
        if not is_sound[index]:
            results.append(RowResult(None, "the model produced numbers that are not finite"))
        elif row.sampling.temperature == 0:
            results.append(RowResult(greedy[index]))
        else:
            results.append(RowResult(_draw(logits[index], row)))
    return results


def uniform(seed: int, sample_index: int) -> float:
    """Return the number in [0, 1) that draws token `sample_index` of an answer with `seed`."""
    digest = hashlib.blake2b(f"{seed}:{sample_index}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


def _draw(logits: torch.Tensor, row: PlannedRow) -> int:
    """Draw one token; filters in the order top-k, top-p, min-p, as in transformers."""
    params = row.sampling
    scaled = logits / params.temperature
    ids: torch.Tensor | None = None
    if params.top_k:
        scaled, ids = scaled.topk(min(params.top_k, len(scaled)))
        probabilities = scaled.softmax(-1, dtype=torch.float64)
    elif params.top_p < 1:
        probabilities, ids = _most_likely(scaled, mass=params.top_p)
    else:
        probabilities = scaled.softmax(-1, dtype=torch.float64)
    if params.top_p < 1:
        # Keep the most likely ids until their mass reaches top_p, the one that does included.
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities.masked_fill(before >= params.top_p, 0.0)
    if params.min_p > 0:
        floor = params.min_p * probabilities.max()
        probabilities = probabilities.masked_fill(probabilities < floor, 0.0)
    cumulative = probabilities.cumsum(-1)
    target = uniform(row.seed, row.sample_index) * cumulative[-1]
    place = int(torch.searchsorted(cumulative, target, right=True))
    place = min(place, int(probabilities.nonzero()[-1]))
    return int(ids[place]) if ids is not None else place


def _most_likely(scaled: torch.Tensor, *, mass: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return probabilities and ids, most likely first, of at least `mass` of the distribution."""
    scaled = scaled.double()
    total = scaled.logsumexp(-1)
    if len(scaled) > FIRST_CANDIDATES:
        # Sorting the whole vocabulary costs milliseconds and is hardly ever needed.
        best, ids = scaled.topk(FIRST_CANDIDATES)
        probabilities = (best - total).exp()
        if float(probabilities.sum()) >= mass:
            return probabilities, ids
    best, ids = scaled.sort(descending=True)
    return (best - total).exp(), ids
