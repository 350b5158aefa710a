"""Matrices in groups of 32 weights, in 4 or 8 bits, as a team of threads multiplies with them.

They are what a file has them in, or nearly so (`models.quantise`): nothing is turned, and norms
keep their weights. Rows are rounded in groups, too, so what sticks out is felt in its group alone.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

import numpy as np
import torch
import torch.nn.functional as F

from localpaged.engine.quantised_linear import find_quantised
from localpaged_kernels.cpu_step.group_matrix import pack_groups, tile_bytes
from localpaged_kernels.cpu_step.group_vectors import EIGHT_BITS, FOUR_BITS
from localpaged_kernels.cpu_step.huge_pages import Room, room_for
from localpaged_kernels.cpu_step.llvm_code import LANES
from localpaged_kernels.cpu_step.matrix import padded_outputs
from localpaged_kernels.quantised_linear.reference import QuantisedMatrix, dequantise


class GroupedMatrix:
    """Packed weights of one projection in groups, with a bias for each output.

    `padded` is `outputs` rounded up to what is computed at once; what is beyond is zero.
    """

    __slots__ = ("_biases", "_bits", "_weights", "inputs", "outputs", "padded")

    def __init__(self, state: MutableMapping[str, torch.Tensor], name: str, room: Room) -> None:
        """Take the matrix from a state dict."""
        matrix = _found(state, name)
        for key in [key for key in state if key.startswith((f"{name}.int4", f"{name}.int8"))]:
            del state[key]
        self.outputs, self.inputs = matrix.outputs, matrix.width
        self.padded = padded_outputs(self.outputs)
        self._bits = FOUR_BITS if matrix.is_four_bit else EIGHT_BITS
        self._weights = room.take(_num_bytes(matrix), np.uint8)
        self._biases = room.take(self.padded, np.float32)
        pack_groups(self._bits, matrix.numbers.numpy(), matrix.scales.numpy(), self._weights)
        bias = state.get(f"{name}.bias")
        if bias is not None:
            self._biases[: self.outputs] = bias.float().numpy()

    @staticmethod
    def sizes(state: Mapping[str, torch.Tensor], name: str) -> tuple[int, int]:
        """Return the bytes of a state dict's matrix as it is there, and of it when it is packed."""
        matrix = _found(state, name)
        biases = room_for(padded_outputs(matrix.outputs), np.float32)
        there = matrix.numbers.nbytes + matrix.scales.nbytes
        return there, room_for(_num_bytes(matrix), np.uint8) + biases

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Where weights are, the number of their bits, where biases are."""
        return self._weights.ctypes.data, self._bits, self._biases.ctypes.data


class Embedding:
    """Embeddings by the row, in float32: dense ones, or groups that are made wide when asked for.

    What it reads are the state dict's tensors.
    """

    def __init__(self, state: Mapping[str, torch.Tensor]) -> None:
        self._groups = find_quantised(state, "embed")
        self.weight = state["embed.weight"] if self._groups is None else None

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows [tokens, hidden] of ids [tokens] int64."""
        if self._groups is None:
            assert self.weight is not None
            return F.embedding(ids, self.weight).float()
        numbers, scales = self._groups.numbers[ids], self._groups.scales[:, ids]
        return dequantise(QuantisedMatrix(numbers, scales, self._groups.width))


def has_groups(state: Mapping[str, torch.Tensor]) -> bool:
    """Whether a state dict's matrices are in groups."""
    return find_quantised(state, "embed") is not None


def tie_head(state: MutableMapping[str, torch.Tensor]) -> None:
    """Have embeddings be the head, too, where a state dict has none."""
    if find_quantised(state, "head") is None:
        for name in [name for name in state if name.startswith("embed.")]:
            state[name.replace("embed", "head", 1)] = state[name]


def _found(state: Mapping[str, torch.Tensor], name: str) -> QuantisedMatrix:
    matrix = find_quantised(state, name)
    assert matrix is not None, "matrices of a model are all in groups or none"
    return matrix


def _num_bytes(matrix: QuantisedMatrix) -> int:
    bits = FOUR_BITS if matrix.is_four_bit else EIGHT_BITS
    return padded_outputs(matrix.outputs) // LANES * tile_bytes(bits, matrix.width)
