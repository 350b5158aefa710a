"""What a draw means, row by row, over the sorted vocabulary. Slow and obvious."""

from __future__ import annotations

import torch

LEAST = 1e-20
"""What a smaller temperature or top-p counts as."""


def sample(
    logits: torch.Tensor,
    *,
    temperatures: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    numbers: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a token for each row [rows] int64, and whether its logits are sound [rows] bool.

    logits [rows, vocab] float32; the others [rows], float32 but top_k int32. Temperature 0 is
    greedy: the first of the likeliest. Else filters apply in this order: top_k (0 is all), top_p (1
    is all) of what is left, min_p of the likeliest. The token is the one where the cumulative
    distribution passes `numbers`, in [0, 1): by falling probability, equal ones by id, where there
    is a top_k or top_p, else by id alone. Logits may be minus infinity; a row with what is not a
    number, or without a greatest one that is finite, is not sound, and its token is any.
    """
    is_sound = logits.amax(-1).isfinite()
    tokens = torch.zeros(len(logits), dtype=torch.int64)
    for row in is_sound.nonzero()[:, 0].tolist():
        parameters = [float(p[row]) for p in (temperatures, top_k, top_p, min_p, numbers)]
        tokens[row] = _draw(logits[row].float(), *parameters)
    return tokens, is_sound


def _draw(
    logits: torch.Tensor, temperature: float, k: float, p: float, least: float, number: float
) -> int:
    if temperature == 0:
        return int((logits == logits.max()).nonzero()[0])
    probabilities = (logits / max(temperature, LEAST)).softmax(-1)
    ids = torch.arange(len(logits))
    if k > 0 or p < 1:
        ids = logits.sort(descending=True, stable=True).indices
        probabilities = probabilities[ids]
        if 0 < k < len(logits):
            probabilities[int(k) :] = 0
        probabilities = probabilities / probabilities.sum()
        before = probabilities.cumsum(-1) - probabilities
        if p < 1:
            probabilities[before >= max(p, LEAST)] = 0
    probabilities[probabilities < least * probabilities.max()] = 0
    cumulative = probabilities.cumsum(-1)
    total = cumulative[-1]
    target = torch.minimum(number * total, total.nextafter(torch.zeros_like(total)))
    return int(ids[torch.searchsorted(cumulative, target, right=True)])
