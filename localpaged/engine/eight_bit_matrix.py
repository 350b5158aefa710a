"""Matrices of 8-bit weights as a team of threads multiplies with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from localpaged.engine.grouped_matrix import GroupedMatrix, has_groups
from localpaged.freed_memory import give_back
from localpaged.memory_plan import UNRETURNED_BYTES
from localpaged_kernels.cpu_step.huge_pages import Room, room_for
from localpaged_kernels.cpu_step.matrix import pack, padded_outputs


class EightBitMatrix:
    """Packed weights of one projection, with a scale and a bias for each output.

    `padded` is `outputs` rounded up to what is computed at once; what is beyond is zero.
    """

    __slots__ = ("_biases", "_scales", "_weights", "inputs", "outputs", "padded")

    def __init__(self, state: dict[str, torch.Tensor], name: str, room: Room) -> None:
        numbers = state.pop(f"{name}.eight_bit")
        self.outputs, self.inputs = numbers.shape
        self.padded = padded_outputs(self.outputs)
        self._weights = room.take(self.padded * self.inputs, np.uint8)
        self._scales, self._biases = (room.take(self.padded, np.float32) for _ in range(2))
        pack(numbers.numpy(), self._weights)
        self._scales[: self.outputs] = state[f"{name}.eight_bit_scales"].numpy()
        bias = state.get(f"{name}.bias")
        if bias is not None:
            self._biases[: self.outputs] = bias.float().numpy()

    @staticmethod
    def sizes(state: Mapping[str, torch.Tensor], name: str) -> tuple[int, int]:
        """Return the bytes of a state dict's matrix as it is there, and of it when it is packed."""
        numbers = state[f"{name}.eight_bit"]
        outputs, inputs = numbers.shape
        padded = padded_outputs(outputs)
        notes = 2 * room_for(padded, np.float32)
        return numbers.nbytes, room_for(padded * inputs, np.uint8) + notes

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Where weights, scales and biases are."""
        return (
            self._weights.ctypes.data,
            self._scales.ctypes.data,
            self._biases.ctypes.data,
        )


Matrix = EightBitMatrix | GroupedMatrix


def load_matrices(state: dict[str, torch.Tensor], names: Sequence[str]) -> dict[str, Matrix]:
    """Return the projections of a state dict (see `native`) in one piece of memory.

    Each leaves the state dict when it is there, so that none is held twice for long.
    """
    kind = GroupedMatrix if has_groups(state) else EightBitMatrix
    sizes = {name: kind.sizes(state, name) for name in names}
    room = Room(sum(packed_bytes for _, packed_bytes in sizes.values()))
    matrices: dict[str, Matrix] = {}
    freed_bytes = 0
    for name in names:
        matrices[name] = kind(state, name, room)
        freed_bytes += sizes[name][0]
        if freed_bytes >= UNRETURNED_BYTES:  # the C library would keep it for later
            give_back()
            freed_bytes = 0
    return matrices
