"""Changes logits before a draw: penalties for repetition, biases, ends that come too early.

The order is transformers': bias, repetition, then what is added or masked. What a row asks for is
worked out in plain numbers, row by row; tensors are then changed for all rows at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from localpaged.engine.params import DryParams, SamplingParams

MAX_DRY_MATCH = 50
"""Longer repetitions are not told apart: looking further back costs and changes nothing."""

MAX_DRY_PENALTY = 1e6
"""More than any logit; keeps a steep base within float32."""

MIN_REPETITION_PENALTY = 1e-10
"""What a smaller one counts as, so that what is divided by it stays within float32."""


@dataclass(frozen=True, slots=True)
class Adjusted:
    """A row of logits at `place`, its sampling, the tokens before it, what it may not choose."""

    place: int
    sampling: SamplingParams
    history: tuple[int, ...] = ()
    num_prompt: int = 0
    barred_ids: tuple[int, ...] = ()
    allowed: bytes | None = None


def adjust(logits: torch.Tensor, rows: Sequence[Adjusted]) -> None:
    """Change logits [rows, vocab] in place as each of `rows` asks; free where none does."""
    _add(logits, [(row.place, row.sampling.logit_bias) for row in rows if row.sampling.logit_bias])
    _repetition(logits, [row for row in rows if row.sampling.repetition_penalty != 1.0])
    _add(logits, [(row.place, _taken_off(row)) for row in rows if row.sampling.needs_history])
    _mask(logits, [row for row in rows if row.allowed is not None])
    for row in rows:
        if row.barred_ids:
            _bar(logits[row.place], row.barred_ids)


def dry_penalties(history: Sequence[int], dry: DryParams) -> dict[int, float]:
    """Return how much the logit of each token that would prolong a repetition loses."""
    breakers = frozenset(dry.breaker_ids)
    longest: dict[int, int] = {}
    last = history[-1]
    for end in range(len(history) - 1) if last not in breakers else ():
        follower = history[end + 1]
        if history[end] == last and follower not in breakers:
            length = _common_suffix(history, end, breakers)
            longest[follower] = max(length, longest.get(follower, 0))
    return {
        token_id: min(dry.multiplier * dry.base ** (n - dry.allowed_length), MAX_DRY_PENALTY)
        for token_id, n in longest.items()
        if n >= dry.allowed_length
    }


def _common_suffix(history: Sequence[int], end: int, breakers: frozenset[int]) -> int:
    """Return how many tokens up to `end` equal the last ones of the history."""
    length = 1
    while (
        length < MAX_DRY_MATCH
        and length <= end
        and history[end - length] == history[-1 - length]
        and history[end - length] not in breakers
    ):
        length += 1
    return length


def _taken_off(row: Adjusted) -> list[tuple[int, float]]:
    sampling = row.sampling
    change: defaultdict[int, float] = defaultdict(float)
    if sampling.presence_penalty or sampling.frequency_penalty:
        for token_id, count in Counter(row.history[row.num_prompt :]).items():
            change[token_id] -= sampling.presence_penalty + sampling.frequency_penalty * count
    if sampling.dry is not None:
        for token_id, penalty in dry_penalties(row.history, sampling.dry).items():
            change[token_id] -= penalty
    return list(change.items())


def _add(logits: torch.Tensor, changes: Sequence[tuple[int, Iterable[tuple[int, float]]]]) -> None:
    flat = [(place, token_id, value) for place, pairs in changes for token_id, value in pairs]
    if flat:
        places, ids, values = (list(column) for column in zip(*flat, strict=True))
        where = (_indexes(places, logits), _indexes(ids, logits))
        logits.index_put_(where, logits.new_tensor(values), accumulate=True)


def _repetition(logits: torch.Tensor, rows: Sequence[Adjusted]) -> None:
    if not rows:
        return
    seen = [list(dict.fromkeys(row.history)) for row in rows]
    places = _indexes([row.place for row, ids in zip(rows, seen, strict=True) for _ in ids], logits)
    ids = _indexes([token_id for ids in seen for token_id in ids], logits)
    penalties = logits.new_tensor(
        [
            max(row.sampling.repetition_penalty, MIN_REPETITION_PENALTY)
            for row, ids in zip(rows, seen, strict=True)
            for _ in ids
        ]
    )
    values = logits[places, ids]
    logits[places, ids] = torch.where(values < 0, values * penalties, values / penalties)


def _mask(logits: torch.Tensor, rows: Sequence[Adjusted]) -> None:
    """Leave what is allowed: the bits of bytes, least significant first."""
    if not rows:
        return
    joined = bytearray(b"".join(row.allowed or b"" for row in rows))
    packed = torch.frombuffer(joined, dtype=torch.uint8).view(len(rows), -1).to(logits.device)
    bits = packed[:, :, None] >> torch.arange(8, dtype=torch.uint8, device=logits.device) & 1
    allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
    places = _indexes([row.place for row in rows], logits)
    logits[places] = logits[places].masked_fill_(~allowed, float("-inf"))


def _bar(row: torch.Tensor, barred_ids: Sequence[int]) -> None:
    ids = _indexes(barred_ids, row)
    before = row[ids]
    row.index_fill_(0, ids, float("-inf"))
    # A grammar may leave nothing but the end: a complete answer counts more than a long one.
    row[ids] = torch.where(row.amax().isfinite(), row[ids], before)


def _indexes(numbers: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device=like.device)
