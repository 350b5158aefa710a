"""Linear: a projection whose weight format is its own business.

The decoder asks for a linear, not for a matrix product, so weight formats slot in here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F

FOUR_BIT_MAX_ROWS = 24
"""Up to here reading the weights costs most; 4-bit ones are a quarter or an eighth of the bytes."""

FOUR_BIT_GROUP = 32
"""Weights that share a scale and a zero point; as in GGUF's Q4_0 and Q4_1."""

Linear = Callable[[torch.Tensor], torch.Tensor]
"""Projects x [rows, in] to [rows, out]."""


def make_linear(state: Mapping[str, torch.Tensor], name: str) -> Linear:
    """Return the projection `name` of a state dict.

    `name`.weight [out, in] and perhaps `name`.bias [out]; beside them perhaps the same weights as
    `name`.four_bit and `name`.four_bit_scales, for few rows (see `FourBitLinear`), or, instead of
    them, `name`.eight_bit and `name`.eight_bit_scales (see `EightBitLinear`).
    """
    numbers = state.get(f"{name}.eight_bit")
    if numbers is not None:
        return EightBitLinear(
            numbers,
            state[f"{name}.eight_bit_scales"],
            state.get(f"{name}.bias"),
            turn=state.get(f"{name}.turn"),
        )
    dense = DenseLinear(state[f"{name}.weight"], state.get(f"{name}.bias"))
    packed = state.get(f"{name}.four_bit")
    if packed is None:
        return dense
    return FourBitLinear(packed, state[f"{name}.four_bit_scales"], dense)


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


class EightBitLinear:
    """y = x Wᵀ + b with 8-bit numbers on both sides, for a model that was turned (`eight_bit`).

    The operator rounds all rows of a step by one scale, which follows from their least and greatest
    number. So every row is brought to the size 1, and one more row has -1 and 1: the scale is
    always the same, products are exact integers, and a row's result does not depend on the others.
    A row that is not finite makes its own result not finite. `turn` is the Hadamard matrix that
    rows are still to be multiplied by.
    """

    __slots__ = ("_bias", "_packed", "_range", "_turn")

    def __init__(
        self,
        numbers: torch.Tensor,
        scales: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        turn: torch.Tensor | None = None,
    ) -> None:
        zeros = torch.zeros_like(scales, dtype=torch.int64)
        with warnings.catch_warnings():
            # torch tells that it may take the operator away; `can_be_eight_bit` looks for it.
            warnings.simplefilter("ignore")
            weight = torch._make_per_channel_quantized_tensor(numbers, scales.double(), zeros, 0)
        self._packed = torch.ops.quantized.linear_prepack(weight, None)
        self._bias = None if bias is None else bias.float()
        self._turn = turn
        self._range = torch.zeros(1, numbers.shape[1])
        self._range[0, :2] = torch.tensor([-1.0, 1.0])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Project x [rows, in] to float32 [rows, out]."""
        x = x.float()
        if self._turn is not None:
            x = (x.reshape(-1, self._turn.shape[0]) @ self._turn).view(x.shape)
        sizes = x.abs().amax(dim=-1, keepdim=True)
        # A row of zeros divided by its size is not a number, and 0 again afterwards.
        sized = torch.cat((x / sizes, self._range)).nan_to_num_(0.0, 0.0, 0.0)
        out: torch.Tensor = torch.ops.quantized.linear_dynamic(sized, self._packed)
        y = out[: x.shape[0]].mul_(sizes)
        return y if self._bias is None else y.add_(self._bias)
