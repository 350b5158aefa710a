"""Makes matrices in groups of 32 numbers that share a scale, in 8 or 4 bits, for a card.

What a file has in such groups stays as it is: Q8_0, Q4_0, Q4_1 to the last bit, Q4_K but for the
rounding of its scales to float16. Everything else is rounded to the nearest, in 4 bits by the best
of a few scales. The numbers do not depend on how many rows are done at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localpaged.errors import UnsupportedModel
from localpaged.models.dequantise import block_size, dequantise, k_scales
from localpaged.models.weight_forms import FOUR_BIT_TYPES, GROUP, INT4, INT8, Form

if TYPE_CHECKING:
    import torch

HALF_GROUP = GROUP // 2
EIGHT_BIT_LIMIT = 127
FOUR_BIT_LIMIT = 15

SHRINKS = (1.0, 0.88)
"""Shares of a group's range that its 16 steps are tried over: without what sticks out the others
are finer."""

REFITS = 2
"""How often scale and minimum are then fitted to what was rounded, and rounded by anew."""

LARGEST = 65_504.0
"""What float16 holds, which scales are."""

Groups = tuple["torch.Tensor", "torch.Tensor"]
"""Numbers [rows, bytes] and scales [groups, rows], in 4 bits [groups, rows, 2]."""


@dataclass(frozen=True, slots=True)
class QuantisedTensor:
    """A matrix as the engine takes it, see `engine.linear`; filled in place.

    `numbers` [rows, bytes] int8, or uint8 with two numbers each; `scales` [groups, rows] or
    [groups, rows, 2] float16.
    """

    form: Form
    numbers: torch.Tensor
    scales: torch.Tensor

    def put(self, first_row: int, type_name: str, raw: torch.Tensor) -> None:
        """Fill rows from `first_row` on from bytes [rows, row bytes] of a file's type.

        Raises UnsupportedModel for numbers beyond what scales hold.
        """
        rows = slice(first_row, first_row + raw.shape[0])
        made = taken_over(type_name, raw, self.form)
        if made is None:
            width = self.scales.shape[0] * GROUP
            wide = _wide(type_name, raw, width)
            if not bool(wide.abs().amax() <= LARGEST):
                raise UnsupportedModel(
                    f"A matrix has weights that are larger than {LARGEST:,.0f}, or no numbers;"
                    f" {self.form} does not hold them.",
                    hint="Load it with --dtype bfloat16.",
                )
            made = rounded(wide.to(self.numbers.device), self.form)
        numbers, scales = made
        self.numbers[rows] = numbers.to(self.numbers.device)
        self.scales[:, rows] = scales.to(self.scales.device)


def empty_quantised(
    shape: tuple[int, ...], form: Form, device: torch.device | None
) -> QuantisedTensor:
    """Return a matrix [rows, width] whose numbers are not there yet; width is whole groups."""
    import torch

    rows, groups = shape[0], shape[1] // GROUP
    if form == INT4:
        numbers = torch.empty((rows, groups * HALF_GROUP), dtype=torch.uint8, device=device)
        scales = torch.empty((groups, rows, 2), dtype=torch.float16, device=device)
    else:
        numbers = torch.empty((rows, groups * GROUP), dtype=torch.int8, device=device)
        scales = torch.empty((groups, rows), dtype=torch.float16, device=device)
    return QuantisedTensor(form, numbers, scales)


def taken_over(type_name: str, raw: torch.Tensor, form: Form) -> Groups | None:
    """Return the groups of a file's bytes as they are; None where its type has no such groups."""
    if form == INT8 and type_name == "Q8_0":
        return _from_q8_0(raw)
    if form == INT4 and type_name in FOUR_BIT_TYPES:
        return _from_q4_k(raw) if type_name == "Q4_K" else _from_q4(type_name, raw)
    return None


def rounded(weights: torch.Tensor, form: Form) -> Groups:
    """Return float32 weights [rows, width], rounded where they lie."""
    groups = weights.unflatten(1, (-1, GROUP))
    return _four_bits(groups) if form == INT4 else _eight_bits(groups)


def _wide(type_name: str, raw: torch.Tensor, width: int) -> torch.Tensor:
    import torch

    wide = torch.empty((raw.shape[0], width), dtype=torch.float32)
    dequantise(type_name, raw, wide)
    return wide


def _eight_bits(groups: torch.Tensor) -> Groups:
    scales = (groups.abs().amax(-1) / EIGHT_BIT_LIMIT).half()
    steps = _divisible(scales).unsqueeze(-1)
    numbers = (groups / steps).round_().clamp_(-EIGHT_BIT_LIMIT, EIGHT_BIT_LIMIT)
    return _in_words(numbers.char()), scales.t().contiguous()


def _four_bits(groups: torch.Tensor) -> Groups:
    import torch

    low, high = groups.amin(-1), groups.amax(-1)
    best: _Tried | None = None
    for shrink in SHRINKS:
        cut = (high - low) * ((1 - shrink) / 2)
        tried = _tried(groups, (high - low - 2 * cut) / FOUR_BIT_LIMIT, low + cut)
        best = tried if best is None else _better(best, tried)
        for _ in range(REFITS):
            tried = _tried(groups, *_refitted(groups, tried.numbers))
            best = _better(best, tried)
    assert best is not None
    scales = torch.stack((best.scale, best.minimum), -1)
    return _packed(best.numbers), scales.transpose(0, 1).contiguous()


@dataclass(frozen=True, slots=True)
class _Tried:
    """4-bit numbers [rows, groups, 32], and of each group scale, minimum and squared error."""

    numbers: torch.Tensor
    scale: torch.Tensor
    minimum: torch.Tensor
    errors: torch.Tensor


def _tried(groups: torch.Tensor, scale: torch.Tensor, minimum: torch.Tensor) -> _Tried:
    import torch

    scale, minimum = scale.half(), minimum.half()
    start, step = minimum.float().unsqueeze(-1), _divisible(scale).unsqueeze(-1)
    numbers = ((groups - start) / step).round_().clamp_(0, FOUR_BIT_LIMIT)
    errors = (numbers * scale.float().unsqueeze(-1)).add_(start).sub_(groups).square_().sum(-1)
    return _Tried(numbers.to(torch.uint8), scale, minimum, errors)


def _better(one: _Tried, other: _Tried) -> _Tried:
    """Return of each group what has the smaller error, the first where they are equal."""
    import torch

    is_other = other.errors < one.errors
    return _Tried(
        torch.where(is_other.unsqueeze(-1), other.numbers, one.numbers),
        torch.where(is_other, other.scale, one.scale),
        torch.where(is_other, other.minimum, one.minimum),
        torch.where(is_other, other.errors, one.errors),
    )


def _refitted(groups: torch.Tensor, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scales and minima with which those numbers come nearest: a straight line each."""
    wide = numbers.float()
    mean, target = wide.mean(-1, keepdim=True), groups.mean(-1, keepdim=True)
    away = wide - mean
    slope = (away * (groups - target)).sum(-1) / _divisible(away.square().sum(-1))
    return slope, target.squeeze(-1) - slope * mean.squeeze(-1)


def _divisible(scales: torch.Tensor) -> torch.Tensor:
    """Return scales in float32, infinite where they are zero: then all numbers become zero."""
    wide = scales.float()
    return wide.masked_fill(wide == 0, float("inf"))


def _packed(numbers: torch.Tensor) -> torch.Tensor:
    """Return [rows, bytes] of 4-bit numbers [rows, groups, 32], four of them a word of 16 bits."""
    quarters = numbers.unflatten(-1, (2, 2, HALF_GROUP // 2))
    halves = quarters[..., 1, :].bitwise_left_shift(4).bitwise_or_(quarters[..., 0, :])
    return halves.transpose(-1, -2).flatten(1)


def _in_words(numbers: torch.Tensor) -> torch.Tensor:
    """Return [rows, bytes] of 8-bit numbers [rows, groups, 32], two of them a word of 16 bits."""
    return numbers.unflatten(-1, (2, HALF_GROUP)).transpose(-1, -2).flatten(1)


def _from_q8_0(raw: torch.Tensor) -> Groups:
    import torch

    blocks = _blocks("Q8_0", raw)
    numbers = blocks[..., 2:].contiguous().view(torch.int8)
    return _in_words(numbers), _halves(blocks, 0).t().contiguous()


def _from_q4(type_name: str, raw: torch.Tensor) -> Groups:
    import torch

    blocks = _blocks(type_name, raw)
    scale = _halves(blocks, 0)
    # Q4_0 has no minimum: its numbers are centred on 8
    minimum = _halves(blocks, 2) if type_name == "Q4_1" else -8 * scale
    head = 4 if type_name == "Q4_1" else 2
    scales = torch.stack((scale, minimum), -1).transpose(0, 1).contiguous()
    packed = blocks[..., head:]
    numbers = torch.cat((packed.bitwise_and(15), packed.bitwise_right_shift(4)), -1)
    return _packed(numbers), scales


def _from_q4_k(raw: torch.Tensor) -> Groups:
    import torch

    blocks = _blocks("Q4_K", raw)
    rows, count = blocks.shape[:2]
    # 32 bytes are two groups, one below and one above
    pairs = blocks[..., 16:].reshape(rows, count, 4, 1, GROUP)
    numbers = torch.cat((pairs.bitwise_and(15), pairs.bitwise_right_shift(4)), 3)
    scale, minimum = k_scales(blocks.reshape(rows * count, -1))
    scales = torch.stack((scale, -minimum), -1).half().view(rows, count * 8, 2)
    return _packed(numbers.view(rows, count * 8, GROUP)), scales.transpose(0, 1).contiguous()


def _blocks(type_name: str, raw: torch.Tensor) -> torch.Tensor:
    return raw.unflatten(1, (-1, block_size(type_name)[1]))


def _halves(blocks: torch.Tensor, start: int) -> torch.Tensor:
    """Return the float16 at byte `start` of every block, [rows, blocks]."""
    import torch

    return blocks[..., start : start + 2].contiguous().view(torch.float16).squeeze(-1)
