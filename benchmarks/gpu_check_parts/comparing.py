"""How far results are from what they should be, as a share of what is tolerated, and where."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpu_check_parts.entries import Case

OPERATOR = "engine and transformers"


def share_of_tolerance(
    got: torch.Tensor, want: torch.Tensor, *, absolute: float, relative: float
) -> float:
    """Return the largest |got - want| / (absolute + relative · |want|).

    What is not finite in only one of them, or not alike, is infinitely far off; equal is 0.
    """
    got, want = got.detach().cpu().double(), want.detach().cpu().double()
    if got.shape != want.shape:
        return float("inf")
    is_equal = (got == want) | (got.isnan() & want.isnan())
    if bool(is_equal.all()):
        return 0.0
    got, want = got[~is_equal], want[~is_equal]
    error = (got - want).abs() / (absolute + relative * want.abs())
    return float(error.nan_to_num(nan=float("inf"), posinf=float("inf")).max())


def equal(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return 0 where the bits are the same, else infinity."""
    got, want = got.cpu(), want.cpu()
    if got.dtype.itemsize == 1:
        got, want = got.view(torch.int8), want.view(torch.int8)
    return 0.0 if torch.equal(got, want) else float("inf")


def same_answers(title: str, got: Sequence[list[int]], want: Sequence[list[int]]) -> Case:
    """Tell whether all answers are right and, of the first that is not, from where on."""
    for number, (mine, right) in enumerate(zip(got, want, strict=True), start=1):
        if mine != right:
            pairs = enumerate(zip(mine, right, strict=False))
            place = next((i for i, (a, b) in pairs if a != b), min(len(mine), len(right)))
            where = f"answer {number} of {len(want)} from token {place + 1} of {len(right)} on"
            told = f"{mine[place : place + 3]} in place of {right[place : place + 3]}"
            return Case(OPERATOR, f"{title}: wrong is {where}, {told}", float("inf"))
    return Case(OPERATOR, title, 0.0)
