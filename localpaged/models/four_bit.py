"""Repacks 4-bit GGUF weights for torch's CPU operator, without widening them in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.models.raw_tensor import RawTensor

if TYPE_CHECKING:
    import torch

GROUP = 32
_SCALE_BYTES = {"Q4_0": 2, "Q4_1": 4}
_PACKED_ROWS = 16


def is_four_bit(type_name: str) -> bool:
    """Tell whether tensors of this GGUF type can be packed."""
    return type_name in _SCALE_BYTES


def pack_four_bit(parts: tuple[RawTensor, ...]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return weights and scales of stacked `parts` as `_weight_int4pack_mm_for_cpu` takes them.

    None when the number of rows does not suit the operator. Parts are `is_four_bit`.
    Both formats are w = scale · q + minimum in groups of 32; torch's is (q - 8) · scale + zero,
    so the 4-bit numbers stay as they are and only the scales are rounded, to bfloat16.
    """
    import torch

    numbers, scales = zip(*(_split(part) for part in parts), strict=True)
    whole = torch.cat(numbers)
    if whole.shape[0] % _PACKED_ROWS:
        return None
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(whole, 1)
    return packed, torch.cat(scales).transpose(0, 1).contiguous().bfloat16()


def _split(part: RawTensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the 4-bit numbers int32 [rows, columns] and (scale, zero) [rows, groups, 2]."""
    import torch

    head = _SCALE_BYTES[part.type]
    blocks = part.data.view(part.data.shape[0], -1, head + GROUP // 2)
    halves = blocks[..., head:]
    numbers = torch.cat((halves & 15, halves >> 4), dim=-1).flatten(1).int()
    factors = blocks[..., :head].contiguous().view(torch.float16).float()
    scale = factors[..., 0]
    zero = factors[..., 1] + 8 * scale if head == 4 else torch.zeros_like(scale)
    return numbers, torch.stack((scale, zero), dim=-1)
