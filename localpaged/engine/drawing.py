"""Draws tokens from logits, all draws at once: temperature, top-k, top-p, min-p.

A token is drawn by inverting the cumulative distribution at one uniform number, which follows
from the request's seed, the branch and the token's place in its answer alone. So a seed gives the
same text whatever else is in the batch, and after a preemption.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch

from localpaged.engine.params import SamplingParams
from localpaged.engine.step_plan import Draw

FIRST_CANDIDATES = 256
"""Candidates among which a nucleus (top-p) is searched before looking at more."""

MIN_POSITIVE = 1e-20
"""What a smaller temperature or top-p counts as: the same draws, and logits stay within float32."""


class Select(Protocol):
    """Finds the likeliest tokens."""

    def __call__(
        self, logits: torch.Tensor, temperatures: torch.Tensor, count: int, /
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the largest of logits [rows, vocab] / temperatures [rows, 1], with their ids.

        Both [rows, count], the largest first; and the logarithms of the sums of the exponentials
        of all [rows, 1].
        """


@dataclass(frozen=True, slots=True)
class DrawTask:
    """A draw and the parameters it is made with."""

    draw: Draw
    sampling: SamplingParams


def select_likeliest(
    logits: torch.Tensor, temperatures: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See Select; torch's way."""
    scaled = logits / temperatures
    values, ids = scaled.topk(count)
    return values, ids, scaled.logsumexp(-1, keepdim=True)


def draw_tokens(
    logits: torch.Tensor, tasks: Sequence[DrawTask], *, select: Select = select_likeliest
) -> list[int]:
    """Return a token id for each task from its logits [tasks, vocab]; temperature 0 is greedy."""
    greedy, filtered, others = _by_kind(tasks)
    tokens = torch.empty(len(tasks), dtype=torch.int64)
    for indexes, draw in (
        (greedy, lambda own, _: own.argmax(dim=-1)),
        (filtered, partial(_draw_filtered, select=select)),
        (others, _draw_from_all),
    ):
        if indexes:
            own = logits if len(indexes) == len(tasks) else logits[indexes]
            tokens[indexes] = draw(own, [tasks[i] for i in indexes])
    return [int(token) for token in tokens.tolist()]


def _by_kind(tasks: Sequence[DrawTask]) -> tuple[list[int], list[int], list[int]]:
    """Return which tasks are greedy, which draw among the likeliest tokens, and which among all."""
    kinds: tuple[list[int], list[int], list[int]] = ([], [], [])
    for i, task in enumerate(tasks):
        sampling = task.sampling
        is_filtered = sampling.top_k > 0 or sampling.top_p < 1
        kinds[0 if sampling.temperature == 0 else 1 if is_filtered else 2].append(i)
    return kinds


def uniform(draw: Draw) -> float:
    """Return the number in [0, 1) that decides a draw."""
    text = f"{draw.seed}:{draw.branch}:{draw.index}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


def _draw_from_all(logits: torch.Tensor, tasks: Sequence[DrawTask]) -> torch.Tensor:
    """Draw where no filter needs an order of the vocabulary."""
    scaled = logits / _temperatures(tasks)
    return _invert(scaled.softmax(-1), tasks)


def _draw_filtered(
    logits: torch.Tensor,
    tasks: Sequence[DrawTask],
    num_candidates: int = FIRST_CANDIDATES,
    *,
    select: Select,
) -> torch.Tensor:
    """Draw with top-k, top-p and min-p, in this order, as in transformers."""
    vocab = logits.shape[-1]
    top_k = _column([task.sampling.top_k or vocab for task in tasks])
    top_p = _column([max(task.sampling.top_p, MIN_POSITIVE) for task in tasks])
    count = min(vocab, max(num_candidates, *[task.sampling.top_k for task in tasks]))
    values, ids, log_sums = select(logits, _temperatures(tasks), count)
    probabilities = (values - log_sums).exp()
    is_short = (probabilities.sum(-1, keepdim=True) < top_p) & (top_k > count)
    if is_short.any() and count < vocab:
        # Ordering the whole vocabulary costs milliseconds: look further only where it is needed.
        parts = [(logits[i : i + 1], tasks[i : i + 1], is_short[i]) for i in range(len(tasks))]
        return torch.cat(
            [
                _draw_filtered(part, task, count * 8 if short else count, select=select)
                for part, task, short in parts
            ]
        )
    place = torch.arange(probabilities.shape[-1])
    probabilities.masked_fill_(place >= top_k, 0.0)
    probabilities /= torch.where(top_k < vocab, probabilities.sum(-1, keepdim=True), 1.0)
    # Keep the likeliest ids until their mass reaches top_p, the one that does included.
    before = probabilities.cumsum(-1) - probabilities
    probabilities.masked_fill_((before >= top_p) & (top_p < 1), 0.0)
    return ids.gather(1, _invert(probabilities, tasks)[:, None])[:, 0]


def _invert(probabilities: torch.Tensor, tasks: Sequence[DrawTask]) -> torch.Tensor:
    """Apply min-p, then return each task's place [tasks] where its uniform number falls."""
    if any(task.sampling.min_p for task in tasks):
        floor = probabilities.amax(-1, keepdim=True) * _column([t.sampling.min_p for t in tasks])
        probabilities = probabilities.masked_fill(probabilities < floor, 0.0)
    cumulative = probabilities.cumsum(-1)
    total = cumulative[:, -1:]
    numbers = _column([uniform(task.draw) for task in tasks])
    # Just below the total at most: the place found is then one that has a probability.
    target = torch.minimum(numbers * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True)[:, 0]


def _temperatures(tasks: Sequence[DrawTask]) -> torch.Tensor:
    return _column([max(task.sampling.temperature, MIN_POSITIVE) for task in tasks])


def _column(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1)
