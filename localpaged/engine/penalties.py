"""Changes logits before a draw: penalties for repetition, biases, ends that come too early.

The order is transformers': bias, repetition, then what is added or masked. What a row asks for is
worked out in plain numbers, row by row; tensors are then changed for all rows at once. So the
numbers of a step can go to a device in one piece, and nobody waits for what is done with them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
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
    numbers = adjustments(rows)
    if numbers:
        apply(logits, {name: torch.from_numpy(array) for name, array in numbers.items()})


def adjustments(rows: Sequence[Adjusted]) -> dict[str, np.ndarray]:
    """Return the numbers by which `apply` changes logits; those that nobody asks for are left out.

    Pairs of places and token ids are int64, values float32, masks [rows, bytes] uint8.
    """
    bias = [(row.place, row.sampling.logit_bias) for row in rows if row.sampling.logit_bias]
    less = [(row.place, _taken_off(row)) for row in rows if row.sampling.needs_history]
    return {
        **_pairs("bias", bias),
        **_repetition([row for row in rows if row.sampling.repetition_penalty != 1.0]),
        **_pairs("less", less),
        **_masks([row for row in rows if row.allowed is not None]),
        **_bars([row for row in rows if row.barred_ids]),
    }


def apply(logits: torch.Tensor, numbers: Mapping[str, torch.Tensor]) -> None:
    """Change logits [rows, vocab] in place by `adjustments` that lie where the logits do."""
    _add(logits, "bias", numbers)
    if "seen_places" in numbers:
        where = numbers["seen_places"], numbers["seen_ids"]
        values, penalties = logits[where], numbers["seen_values"]
        logits[where] = torch.where(values < 0, values * penalties, values / penalties)
    _add(logits, "less", numbers)
    if "mask_places" in numbers:
        _mask(logits, numbers["mask_places"], numbers["mask_bits"])
    if "barred_places" in numbers:
        _bar(logits, numbers)


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


def _pairs(
    name: str, changes: Sequence[tuple[int, Iterable[tuple[int, float]]]]
) -> dict[str, np.ndarray]:
    """Return what is added where: the pairs of token ids and values of each place."""
    flat = [(place, token_id, value) for place, pairs in changes for token_id, value in pairs]
    if not flat:
        return {}
    places, ids, values = zip(*flat, strict=True)
    return {
        f"{name}_places": np.array(places, dtype=np.int64),
        f"{name}_ids": np.array(ids, dtype=np.int64),
        f"{name}_values": np.array(values, dtype=np.float32),
    }


def _repetition(rows: Sequence[Adjusted]) -> dict[str, np.ndarray]:
    return _pairs(
        "seen",
        [
            (
                row.place,
                [
                    (token_id, max(row.sampling.repetition_penalty, MIN_REPETITION_PENALTY))
                    for token_id in dict.fromkeys(row.history)
                ],
            )
            for row in rows
        ],
    )


def _masks(rows: Sequence[Adjusted]) -> dict[str, np.ndarray]:
    """Return what is allowed where: the bits of bytes, least significant first."""
    if not rows:
        return {}
    joined = b"".join(row.allowed or b"" for row in rows)
    return {
        "mask_places": np.array([row.place for row in rows], dtype=np.int64),
        "mask_bits": np.frombuffer(bytearray(joined), dtype=np.uint8).reshape(len(rows), -1),
    }


def _bars(rows: Sequence[Adjusted]) -> dict[str, np.ndarray]:
    """Return which ids end an answer too early: pairs, and which of the rows with bars each is."""
    if not rows:
        return {}
    flat = [(i, row.place, token_id) for i, row in enumerate(rows) for token_id in row.barred_ids]
    numbers, places, ids = zip(*flat, strict=True)
    return {
        "barred_rows": np.array([row.place for row in rows], dtype=np.int64),
        "barred_numbers": np.array(numbers, dtype=np.int64),
        "barred_places": np.array(places, dtype=np.int64),
        "barred_ids": np.array(ids, dtype=np.int64),
    }


def _add(logits: torch.Tensor, name: str, numbers: Mapping[str, torch.Tensor]) -> None:
    if f"{name}_places" in numbers:
        where = numbers[f"{name}_places"], numbers[f"{name}_ids"]
        logits.index_put_(where, numbers[f"{name}_values"], accumulate=True)


def _mask(logits: torch.Tensor, places: torch.Tensor, packed: torch.Tensor) -> None:
    shifts = torch.arange(8, dtype=torch.uint8, device=logits.device)
    bits = packed[:, :, None] >> shifts & 1
    allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
    logits[places] = logits[places].masked_fill_(~allowed, float("-inf"))


def _bar(logits: torch.Tensor, numbers: Mapping[str, torch.Tensor]) -> None:
    where = numbers["barred_places"], numbers["barred_ids"]
    before = logits[where]
    logits[where] = torch.full_like(before, float("-inf"))
    # A grammar may leave nothing but the end: a complete answer counts more than a long one.
    is_possible = logits[numbers["barred_rows"]].amax(-1).isfinite()[numbers["barred_numbers"]]
    logits[where] = torch.where(is_possible, float("-inf"), before)
