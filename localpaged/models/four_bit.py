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

    num_rows = sum(part.shape[0] for part in parts)
    if num_rows % _PACKED_ROWS:
        return None
    groups = parts[0].shape[1] // GROUP
    numbers = torch.empty((num_rows, groups, 2, GROUP // 2), dtype=torch.int32)
    scales = torch.empty((num_rows, groups, 2), dtype=torch.float32)
    row = 0
    for part in parts:
        rows = slice(row, row + part.shape[0])
        _unpack(part, numbers[rows], scales[rows])
        row += part.shape[0]
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers.flatten(1), 1)
    return packed, scales.transpose(0, 1).contiguous().bfloat16()


def _unpack(part: RawTensor, numbers: torch.Tensor, scales: torch.Tensor) -> None:
    """Write the 4-bit numbers [rows, groups, halves, 16] and (scale, zero) [rows, groups, 2]."""
    import torch

    head = _SCALE_BYTES[part.type]
    blocks = part.data.view(numbers.shape[0], numbers.shape[1], head + GROUP // 2)
    halves = blocks[..., head:]
    numbers[:, :, 0] = halves.bitwise_and(15)
    numbers[:, :, 1] = halves.bitwise_right_shift(4)
    factors = blocks[..., :head].contiguous().view(torch.float16).float()
    scale = factors[..., 0]
    scales[..., 0] = scale
    # Q4_0 has no minimum: its numbers are already centred on 8
    scales[..., 1] = factors[..., 1] + 8 * scale if head == 4 else 0
