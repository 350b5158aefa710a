"""How far results are from what they should be, as a share of what is tolerated."""

from __future__ import annotations

import torch


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
