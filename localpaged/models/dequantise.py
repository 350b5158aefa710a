"""Turns raw tensor bytes into numbers.

The gguf library's numpy code defines the values; the common types are done here by torch in
place, bit for bit the same and several times faster. Torch runs in the calling thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Dequantiser = Callable[[Any, Any], None]

_PLAIN = {"F32": 4, "F16": 2, "BF16": 2}


def can_dequantise(type_name: str) -> bool:
    """Tell whether tensors of this GGUF type can be read."""
    if type_name in _PLAIN:
        return True
    return _library_reads(type_name)


def block_size(type_name: str) -> tuple[int, int]:
    """Return the numbers in one block of the type and the bytes they take."""
    if type_name in _PLAIN:
        return 1, _PLAIN[type_name]
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    items, num_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]
    return int(items), int(num_bytes)


def dequantise(type_name: str, raw: Any, out: Any) -> None:
    """Write the numbers of `raw` (uint8 [rows, row bytes]) into `out` (float32 [rows, columns]).

    `out` must be contiguous. F16 and BF16 also go straight into an `out` of another dtype.
    """
    import torch

    if type_name in _PLAIN:
        dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[type_name]
        out.copy_(raw.view(dtype))
        return
    items, num_bytes = block_size(type_name)
    if (fast := _FAST.get(type_name)) is not None:
        fast(raw.view(-1, num_bytes), out.view(-1, items))
        return
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    out.copy_(torch.from_numpy(dequantize(raw.numpy(), GGMLQuantizationType[type_name])))


def is_plain(type_name: str) -> bool:
    """Tell whether the type is a float that needs no scratch space."""
    return type_name in _PLAIN


@cache
def _library_reads(type_name: str) -> bool:
    import numpy
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    try:
        _, num_bytes = block_size(type_name)
        dequantize(numpy.zeros((1, num_bytes), numpy.uint8), GGMLQuantizationType[type_name])
    except (KeyError, NotImplementedError):
        return False
    return True


def _half(blocks: Any, start: int) -> Any:
    """Return the float16 at byte `start` of every block as float32 [blocks, 1]."""
    import torch

    return blocks[:, start : start + 2].contiguous().view(torch.float16).float()


def _q4_0(blocks: Any, out: Any) -> None:
    _nibbles(blocks[:, 2:], out)
    out.sub_(8).mul_(_half(blocks, 0))


def _q4_1(blocks: Any, out: Any) -> None:
    _nibbles(blocks[:, 4:], out)
    out.mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _q5_0(blocks: Any, out: Any) -> None:
    _nibbles_and_bits(blocks[:, 6:], blocks[:, 2:6], out)
    out.sub_(16).mul_(_half(blocks, 0))


def _q5_1(blocks: Any, out: Any) -> None:
    _nibbles_and_bits(blocks[:, 8:], blocks[:, 4:8], out)
    out.mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _q8_0(blocks: Any, out: Any) -> None:
    import torch

    torch.mul(blocks[:, 2:].view(torch.int8), _half(blocks, 0), out=out)


def _q4_k(blocks: Any, out: Any) -> None:
    pairs = out.view(-1, 4, 2, 32)
    nibbles = blocks[:, 16:].view(-1, 4, 32)
    pairs[:, :, 0] = nibbles.bitwise_and(15)
    pairs[:, :, 1] = nibbles.bitwise_right_shift(4)
    _scale_k(blocks, out)


def _q5_k(blocks: Any, out: Any) -> None:
    pairs = out.view(-1, 4, 2, 32)
    nibbles = blocks[:, 48:].view(-1, 4, 32)
    high = _shifted(blocks[:, 16:48].unsqueeze(1), range(8), mask=1).mul_(16).view(-1, 4, 2, 32)
    pairs[:, :, 0] = nibbles.bitwise_and(15).bitwise_or_(high[:, :, 0])
    pairs[:, :, 1] = nibbles.bitwise_right_shift(4).bitwise_or_(high[:, :, 1])
    _scale_k(blocks, out)


def _q6_k(blocks: Any, out: Any) -> None:
    import torch

    quarters = out.view(-1, 2, 2, 64)
    low = blocks[:, :128].view(-1, 2, 64)
    high = _shifted(blocks[:, 128:192].view(-1, 2, 1, 32), (0, 2, 4, 6), mask=3)
    high = high.mul_(16).view(-1, 2, 2, 64)
    quarters[:, :, 0] = low.bitwise_and(15).bitwise_or_(high[:, :, 0])
    quarters[:, :, 1] = low.bitwise_right_shift(4).bitwise_or_(high[:, :, 1])
    scales = blocks[:, 192:208].view(torch.int8) * _half(blocks, 208)
    out.view(-1, 16, 16).sub_(32).mul_(scales.unsqueeze(-1))


def _nibbles(packed: Any, out: Any) -> None:
    """Spread [blocks, 16] bytes over [blocks, 32]: low halves first, then high halves."""
    out[:, :16] = packed.bitwise_and(15)
    out[:, 16:] = packed.bitwise_right_shift(4)


def _nibbles_and_bits(packed: Any, bits: Any, out: Any) -> None:
    """As `_nibbles`, with the fifth bit of item i in bit i of the 32 of `bits`."""
    high = _shifted(bits.unsqueeze(-1), range(8), mask=1, axis=-1).mul_(16).view(-1, 32)
    out[:, :16] = packed.bitwise_and(15).bitwise_or_(high[:, :16])
    out[:, 16:] = packed.bitwise_right_shift(4).bitwise_or_(high[:, 16:])


def k_scales(blocks: Any) -> tuple[Any, Any]:
    """Return the eight scales and minima of 4- or 5-bit K blocks, each float32 [blocks, 8].

    A number is scale × what is stored - minimum. Both are 6 bits times a factor of the block. The
    first four of each lie in the low six bits of bytes 0-3 and 4-7; the others have their
    low halves in the nibbles of bytes 8-11 and their top two bits above the first four.
    """
    import torch

    low, mid, mixed = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scale = torch.cat([low & 63, (mixed & 15) | ((low >> 2) & 48)], dim=1)
    minimum = torch.cat([mid & 63, (mixed >> 4) | ((mid >> 2) & 48)], dim=1)
    return scale * _half(blocks, 0), minimum * _half(blocks, 2)


def _scale_k(blocks: Any, out: Any) -> None:
    scale, minimum = k_scales(blocks)
    groups = out.view(-1, 8, 32)
    groups.mul_(scale.unsqueeze(-1))
    groups.sub_(minimum.unsqueeze(-1))


def _shifted(packed: Any, shifts: Any, *, mask: int, axis: int = -2) -> Any:
    """Return `packed >> shift & mask` for every shift, along `axis` (of size one before)."""
    import torch

    view = [1] * packed.dim()
    view[axis] = -1
    amounts = torch.tensor(list(shifts), dtype=torch.uint8).view(view)
    return (packed >> amounts).bitwise_and_(mask)


_FAST: dict[str, Dequantiser] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
