"""Matrices in 8 or 4 bits on a card: projections, and embeddings that are read by the row.

Numbers and scales are `localpaged_kernels.quantised_linear`'s, as `models.quantise` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from localpaged_kernels.quantised_linear import triton_impl
from localpaged_kernels.quantised_linear.reference import GROUP, QuantisedMatrix

FORMS = ("int8", "int4")


def find_quantised(state: Mapping[str, torch.Tensor], name: str) -> QuantisedMatrix | None:
    """Return the matrix `name` of a state dict, None where it is dense.

    It is `name`.int8 or `name`.int4 with `name`.int8_scales or `name`.int4_scales.
    """
    for form in FORMS:
        if (numbers := state.get(f"{name}.{form}")) is not None:
            scales = state[f"{name}.{form}_scales"]
            return QuantisedMatrix(numbers, scales, len(scales) * GROUP)
    return None


class QuantisedLinear:
    """y = x Wᵀ + b, summed in float32 and returned in the dtype of x.

    Few rows are multiplied by what is packed, many by 16-bit pieces of it, but where it
    `stays_packed`: rows of logits are never so many that it would pay. Engine thread only: the
    counters of a launch are the next one's, too, and zero between two.
    """

    __slots__ = ("_arrivals", "_bias", "_matrix", "_stays_packed")

    def __init__(
        self,
        matrix: QuantisedMatrix,
        bias: torch.Tensor | None = None,
        *,
        stays_packed: bool = False,
    ) -> None:
        self._matrix = matrix
        self._bias = bias
        self._stays_packed = stays_packed
        self._arrivals = torch.zeros(
            triton_impl.num_counters(matrix.outputs),
            dtype=torch.int32,
            device=matrix.numbers.device,
        )

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Project x [rows, in] to [rows, out]."""
        return triton_impl.project(
            x,
            self._matrix,
            self._bias,
            arrivals=self._arrivals,
            stays_packed=self._stays_packed,
        )


class QuantisedEmbedding:
    """Rows of a matrix in 8 or 4 bits, made wide when they are asked for."""

    __slots__ = ("_matrix", "dtype")

    def __init__(self, matrix: QuantisedMatrix, dtype: torch.dtype) -> None:
        self._matrix = matrix
        self.dtype = dtype

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self._matrix.numbers.device

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows [tokens, hidden] of ids [tokens] int64."""
        return triton_impl.rows_of(self._matrix, ids, self.dtype)
