"""Linear: a projection whose weight format is its own business.

The decoder asks for a linear, not for a matrix product, so weight formats slot in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F

from localpaged.engine.quantised_linear import (
    QuantisedEmbedding,
    QuantisedLinear,
    find_quantised,
)

FOUR_BIT_MAX_ROWS = 24
"""Up to here reading the weights costs most; 4-bit ones are a quarter or an eighth of the bytes."""

FOUR_BIT_GROUP = 32
"""Weights that share a scale and a zero point; as in GGUF's Q4_0 and Q4_1."""

HEADS = ("head", "embed")
"""What makes logits; embeddings where they are tied."""

Linear = Callable[[torch.Tensor], torch.Tensor]
"""Projects x [rows, in] to [rows, out]."""


def make_linear(state: Mapping[str, torch.Tensor], name: str) -> Linear:
    """Return the projection `name` of a state dict.

    `name`.weight [out, in] and perhaps `name`.bias [out]; beside them perhaps the same weights as
    `name`.four_bit and `name`.four_bit_scales, for few rows (see `FourBitLinear`). On a card there
    may be `name`.int8 or `name`.int4 instead (see `quantised_linear`).
    """
    quantised = find_quantised(state, name)
    if quantised is not None:
        is_head = name in HEADS
        return QuantisedLinear(quantised, state.get(f"{name}.bias"), stays_packed=is_head)
    dense = DenseLinear(state[f"{name}.weight"], state.get(f"{name}.bias"))
    packed = state.get(f"{name}.four_bit")
    if packed is None:
        return dense
    return FourBitLinear(packed, state[f"{name}.four_bit_scales"], dense)


def make_embedding(state: Mapping[str, torch.Tensor]) -> DenseEmbedding | QuantisedEmbedding:
    """Return the embeddings of a state dict, in the dtype of its norms."""
    quantised = find_quantised(state, "embed")
    if quantised is not None:
        return QuantisedEmbedding(quantised, state["norm.weight"].dtype)
    return DenseEmbedding(state["embed.weight"])


class DenseEmbedding:
    """Rows of a matrix [vocab, hidden]."""

    __slots__ = ("weight",)

    def __init__(self, weight: torch.Tensor) -> None:
        self.weight = weight

    @property
    def dtype(self) -> torch.dtype:
        """What its rows are in."""
        return self.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self.weight.device

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows [tokens, hidden] of ids [tokens] int64."""
        return F.embedding(ids, self.weight)


class DenseLinear:
    """y = x Wᵀ + b, computed in the weight's dtype, returned in the dtype of x.

    Many processors multiply float32 matrices faster than bfloat16 ones.
    """

    __slots__ = ("bias", "weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Project x [rows, in] to [rows, out]."""
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias).to(x.dtype)


class FourBitLinear:
    """The same projection from 4-bit weights when rows are few, from dense ones else.

    `packed` and `scales` [in / 32, out, 2] bfloat16 are what torch's CPU operator takes:
    w = (q - 8) · scale + zero. The rounding of both forms is that of bfloat16.
    """

    __slots__ = ("_dense", "_packed", "_scales")

    def __init__(self, packed: torch.Tensor, scales: torch.Tensor, dense: DenseLinear) -> None:
        self._packed = packed
        self._scales = scales
        self._dense = dense

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Project x [rows, in] to [rows, out]."""
        if x.shape[0] > FOUR_BIT_MAX_ROWS:
            return self._dense(x)
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(
            x, self._packed, FOUR_BIT_GROUP, self._scales
        )
        return y if self._dense.bias is None else y + self._dense.bias
