"""Sampler: the next token of every sampled row, from its logits, all rows at once.

A token is drawn by inverting the cumulative distribution at one uniform number, which follows
from the request's seed and the token's place in its answer alone. So a seed gives the same text
whatever else is in the batch, and after a preemption.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from localpaged.engine.step_plan import PlannedRow, RowResult

FIRST_CANDIDATES = 256
"""Candidates among which a nucleus (top-p) is searched before looking at more."""


def sample(
    logits: torch.Tensor, rows: Sequence[PlannedRow], *, padding_ids: torch.Tensor
) -> list[RowResult]:
    """Choose a token for each of `rows` from logits [rows, vocab] float32, changed in place.

    `padding_ids` int64 only round the vocabulary up and are never chosen. A row whose logits are
    not finite gets an error and leaves the others alone.
    """
    logits.index_fill_(1, padding_ids, float("-inf"))
    best, tokens = logits.max(dim=-1)
    # Infinite logits are legal (masked ids); a row is broken when its maximum is not a number.
    is_sound = best.isfinite().tolist()
    drawn = [i for i, row in enumerate(rows) if is_sound[i] and row.sampling.temperature > 0]
    is_filtered = [rows[i].sampling.top_k > 0 or rows[i].sampling.top_p < 1 for i in drawn]
    for wanted, draw in ((True, _draw_filtered), (False, _draw_from_all)):
        indexes = [i for i, filtered in zip(drawn, is_filtered, strict=True) if filtered == wanted]
        if indexes:
            tokens[indexes] = draw(logits[indexes], [rows[i] for i in indexes])
    return [
        RowResult(token)
        if sound
        else RowResult(None, "the model produced numbers that are not finite")
        for token, sound in zip(tokens.tolist(), is_sound, strict=True)
    ]


def uniform(seed: int, sample_index: int) -> float:
    """Return the number in [0, 1) that draws token `sample_index` of an answer with `seed`."""
    digest = hashlib.blake2b(f"{seed}:{sample_index}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


def _draw_from_all(logits: torch.Tensor, rows: Sequence[PlannedRow]) -> torch.Tensor:
    """Draw where no filter needs an order of the vocabulary."""
    scaled = logits / _column([row.sampling.temperature for row in rows])
    return _invert(scaled.softmax(-1), rows)


def _draw_filtered(
    logits: torch.Tensor, rows: Sequence[PlannedRow], num_candidates: int = FIRST_CANDIDATES
) -> torch.Tensor:
    """Draw with top-k, top-p and min-p, in this order, as in transformers."""
    scaled = logits / _column([row.sampling.temperature for row in rows])
    vocab = scaled.shape[-1]
    top_k = _column([row.sampling.top_k or vocab for row in rows])
    top_p = _column([row.sampling.top_p for row in rows])
    count = min(vocab, max(num_candidates, *[row.sampling.top_k for row in rows]))
    values, ids = scaled.topk(count)
    probabilities = (values - scaled.logsumexp(-1, keepdim=True)).exp()
    is_short = (probabilities.sum(-1, keepdim=True) < top_p) & (top_k > count)
    if is_short.any() and count < vocab:
        # Ordering the whole vocabulary costs milliseconds: look further only where it is needed.
        parts = [(logits[i : i + 1], rows[i : i + 1], is_short[i]) for i in range(len(rows))]
        return torch.cat(
            [_draw_filtered(part, row, count * 8 if short else count) for part, row, short in parts]
        )
    place = torch.arange(probabilities.shape[-1])
    probabilities.masked_fill_(place >= top_k, 0.0)
    probabilities /= torch.where(top_k < vocab, probabilities.sum(-1, keepdim=True), 1.0)
    # Keep the likeliest ids until their mass reaches top_p, the one that does included.
    before = probabilities.cumsum(-1) - probabilities
    probabilities.masked_fill_((before >= top_p) & (top_p < 1), 0.0)
    return ids.gather(1, _invert(probabilities, rows)[:, None])[:, 0]


def _invert(probabilities: torch.Tensor, rows: Sequence[PlannedRow]) -> torch.Tensor:
    """Apply min-p, then return each row's place [rows] where its uniform number falls."""
    if any(row.sampling.min_p for row in rows):
        floor = probabilities.amax(-1, keepdim=True) * _column([r.sampling.min_p for r in rows])
        probabilities = probabilities.masked_fill(probabilities < floor, 0.0)
    cumulative = probabilities.cumsum(-1)
    total = cumulative[:, -1:]
    numbers = _column([uniform(row.seed, row.sample_index) for row in rows])
    # Just below the total at most: the place found is then one that has a probability.
    target = torch.minimum(numbers * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True)[:, 0]


def _column(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1)
