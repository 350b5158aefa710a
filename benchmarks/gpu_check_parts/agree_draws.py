"""Comparison of draws that never sort with the draws of the sorted reference."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import torch

from localpaged_kernels.sampling import reference, triton_impl

SETTINGS: dict[str, tuple[float, int, float, float]] = {
    "greedy": (0.0, 0, 1.0, 0.0),
    "temperature": (1.0, 0, 1.0, 0.0),
    "min-p": (0.7, 0, 1.0, 0.05),
    "top-k": (1.3, 50, 1.0, 0.0),
    "top-p": (0.9, 0, 0.8, 0.0),
    "top-k, top-p, min-p": (1.0, 20, 0.9, 0.1),
    "hot, wide": (2.0, 10_000, 0.5, 0.3),
    "cold": (1e-6, 0, 0.9, 0.0),
}
ROUNDING = 2e-5
"""Sums of a whole vocabulary in float32 are off by this much at most: the order is another."""

Compare = Callable[[torch.device], float]


def cases(*, is_tiny: bool) -> dict[str, dict[str, Compare]]:
    """Return comparisons by operator and name."""
    vocab, rows = (97, 2) if is_tiny else (151_936, 6)
    names = list(SETTINGS)[:: 3 if is_tiny else 1]
    made: dict[str, Compare] = {name: partial(_draw, SETTINGS[name], vocab, rows) for name in names}
    made["equal logits"] = partial(_draw, SETTINGS["top-k"], 60, rows, is_coarse=True)
    made["rows that are not finite"] = partial(_broken, vocab)
    return {"draws": made}


def _draw(
    settings: tuple[float, int, float, float],
    vocab: int,
    rows: int,
    device: torch.device,
    *,
    is_coarse: bool = False,
) -> float:
    logits = torch.randn(rows, vocab, generator=torch.Generator().manual_seed(5)) * 4
    if is_coarse:
        logits = logits.div(4).round()
    numbers = [random.Random(row).random() for row in range(rows)]
    got, is_sound = _run(logits, settings, numbers, device)
    want, _ = reference.sample(logits, **_parameters(settings, numbers))
    if not is_sound.all():
        return float("inf")
    different = (got != want).nonzero()[:, 0].tolist()
    return max((_distance(logits[row], settings, numbers[row], got[row]) for row in different),
               default=0.0)  # fmt: skip


def _distance(
    logits: torch.Tensor,
    settings: tuple[float, int, float, float],
    number: float,
    got: torch.Tensor,
) -> float:
    """Return how far the number would have to be moved for this token, as a share of ROUNDING."""
    for share in (0.25, 0.5, 1.0):
        moved = [min(max(number + sign * share * ROUNDING, 0.0), 1 - 2**-24) for sign in (-1, 1)]
        rows = logits.expand(2, -1)
        near, _ = reference.sample(rows, **_parameters(settings, moved))
        if int(got) in near.tolist():
            return share
    return float("inf")


def _broken(vocab: int, device: torch.device) -> float:
    logits = torch.randn(4, vocab, generator=torch.Generator().manual_seed(6))
    logits[0, 9], logits[1], logits[2, 4] = float("nan"), -float("inf"), float("inf")
    got, is_sound = _run(logits, (1.0, 5, 0.9, 0.0), [0.3] * 4, device)
    is_inside = bool(((got >= 0) & (got < vocab)).all())
    return 0.0 if is_sound.tolist() == [False, False, False, True] and is_inside else float("inf")


def _run(
    logits: torch.Tensor,
    settings: tuple[float, int, float, float],
    numbers: list[float],
    device: torch.device,
) -> tuple[torch.Tensor, torch.Tensor]:
    named = {name: value.to(device) for name, value in _parameters(settings, numbers).items()}
    tokens, is_sound = triton_impl.sample(logits.to(device), **named)
    return tokens.cpu(), is_sound.cpu()


def _parameters(
    settings: tuple[float, int, float, float], numbers: list[float]
) -> dict[str, torch.Tensor]:
    rows = len(numbers)
    temperature, top_k, top_p, min_p = settings
    return {
        "temperatures": torch.full((rows,), temperature),
        "top_k": torch.full((rows,), top_k, dtype=torch.int32),
        "top_p": torch.full((rows,), top_p),
        "min_p": torch.full((rows,), min_p),
        "numbers": torch.tensor(numbers),
    }
