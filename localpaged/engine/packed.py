"""Packed: a step's numbers in one piece of memory, so that one copy brings them to the device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

ALIGNMENT_BYTES = 16
"""Kernels are compiled for addresses that this divides; others would be compiled anew."""

_NUMPY: Mapping[torch.dtype, type[np.generic]] = {
    torch.int64: np.int64,
    torch.int32: np.int32,
    torch.int8: np.int8,
    torch.uint8: np.uint8,
    torch.float32: np.float32,
}


@dataclass(frozen=True, slots=True)
class Field:
    """A tensor in the piece."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes without what follows to align the next one."""
        return math.prod(self.shape) * int(self.dtype.itemsize)


class Layout:
    """Where each of `fields` lies. Immutable."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._places: list[tuple[Field, int]] = []
        offset = 0
        for field in fields:
            self._places.append((field, offset))
            offset += -(-field.num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.num_bytes = offset

    def tensors(self, piece: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Return views of the fields of a piece [bytes] uint8, which is aligned."""
        return {
            field.name: piece[start : start + field.num_bytes].view(field.dtype).view(field.shape)
            for field, start in self._places
        }

    def arrays(self, piece: torch.Tensor) -> Mapping[str, np.ndarray]:
        """Return numpy's views of the fields of a piece of the host's memory."""
        numbers = piece.numpy()
        return {
            field.name: numbers[start : start + field.num_bytes]
            .view(_NUMPY[field.dtype])
            .reshape(field.shape)
            for field, start in self._places
        }


def fields_of(arrays: Mapping[str, np.ndarray]) -> tuple[Field, ...]:
    """Return fields in which arrays of the host have room."""
    kinds = {np.dtype(kind): dtype for dtype, kind in _NUMPY.items()}
    return tuple(Field(name, kinds[array.dtype], array.shape) for name, array in arrays.items())


def pack(tensors: Mapping[str, torch.Tensor]) -> tuple[Layout, torch.Tensor]:
    """Return copies of tensors of one device in one piece, truths as int8; one at least."""
    named = {name: t.to(torch.int8) if t.dtype == torch.bool else t for name, t in tensors.items()}
    layout = Layout([Field(name, t.dtype, tuple(t.shape)) for name, t in named.items()])
    piece = torch.empty(
        layout.num_bytes, dtype=torch.uint8, device=next(iter(named.values())).device
    )
    for name, place in layout.tensors(piece).items():
        place.copy_(named[name])
    return layout, piece


def draw_fields(count: int) -> tuple[Field, ...]:
    """Return what `count` draws are made with, in the names of the sampling kernel."""
    single = torch.float32
    return (
        Field("temperatures", single, (count,)),
        Field("top_p", single, (count,)),
        Field("min_p", single, (count,)),
        Field("numbers", single, (count,)),
        Field("top_k", torch.int32, (count,)),
    )
