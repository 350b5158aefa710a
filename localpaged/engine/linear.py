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

SMALLEST_SIZE = 1e-30
"""A row of zeros stays one."""

FOUR_BIT_GROUP = 32
"""Weights that share a scale and a zero point; as in GGUF's Q4_0 and Q4_1."""

Linear = Callable[[torch.Tensor], torch.Tensor]
"""Projects x [rows, in] to [rows, out]."""


def make_linear(state: Mapping[str, torch.Tensor], name: str, *, is_even: bool = False) -> Linear:
    """Return the projection `name` of a state dict.

    `name`.weight [out, in] and perhaps `name`.bias [out]; beside them perhaps the same weights as
    `name`.four_bit and `name`.four_bit_scales, for few rows (see `FourBitLinear`), or, instead of
    them, `name`.eight_bit and `name`.eight_bit_scales (see `EightBitLinear`). `is_even`: what is
    projected comes from an RMS norm.
    """
    numbers = state.get(f"{name}.eight_bit")
    if numbers is not None:
        return EightBitLinear(
            numbers,
            state[f"{name}.eight_bit_scales"],
            state.get(f"{name}.bias"),
            turn=state.get(f"{name}.turn"),
            is_even=is_even,
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

    The operator rounds all rows by one scale. So each row is brought to the same size before: what
    one row holds must not change another's. `is_even`: the rows have the same size already, as
    an RMS norm leaves them. A row that is not finite makes its own result not finite.
    `turn` is the Hadamard matrix that rows are still to be multiplied by.
    """

    __slots__ = ("_bias", "_is_even", "_packed", "_turn")

    def __init__(
        self,
        numbers: torch.Tensor,
        scales: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        turn: torch.Tensor | None = None,
        is_even: bool = False,
    ) -> None:
        zeros = torch.zeros_like(scales, dtype=torch.int64)
        with warnings.catch_warnings():
            # torch tells that it may take the operator away; `can_be_eight_bit` looks for it.
            warnings.simplefilter("ignore")
            weight = torch._make_per_channel_quantized_tensor(numbers, scales.double(), zeros, 0)
        self._packed = torch.ops.quantized.linear_prepack(weight, None)
        self._bias = None if bias is None else bias.float()
        self._turn = turn
        self._is_even = is_even

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Project x [rows, in] to float32 [rows, out]."""
        x = x.float()
        if self._turn is not None:
            x = (x.reshape(-1, self._turn.shape[0]) @ self._turn).view(x.shape)
        if self._is_even or x.shape[0] == 1:
            y = self._multiply(x.nan_to_num(0.0, 0.0, 0.0))
            y += x.sum(dim=-1, keepdim=True) * 0.0  # 0, or what is not finite
        else:
            sizes = x.abs().amax(dim=-1, keepdim=True)
            sized = x / sizes.clamp(min=SMALLEST_SIZE)
            y = self._multiply(sized.nan_to_num_(0.0, 0.0, 0.0)).mul_(sizes)
        return y if self._bias is None else y.add_(self._bias)

    def _multiply(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.quantized.linear_dynamic(x, self._packed)
        return y
