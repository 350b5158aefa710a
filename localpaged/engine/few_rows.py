"""FewRows: a layer's projections in a step of a row or two, with norms and gate in the same launch.

Such a step reads every weight for one token, and between two launches a card reads nothing: a
layer is six of them in this way and nine in the other. Whoever has more rows multiplies matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from localpaged.decoder_config import Activation
from localpaged.engine.linear import DenseLinear, Linear
from localpaged.engine.operators import Operators, ProjectFew


@dataclass(frozen=True, slots=True)
class FewRows:
    """Engine thread only; weights never change."""

    project: ProjectFew
    most_rows: int
    qkv: DenseLinear
    o: DenseLinear
    gate_up: DenseLinear
    down: DenseLinear
    attn_norm: torch.Tensor
    mlp_norm: torch.Tensor
    eps: float
    activation: Activation

    def takes(self, hidden: torch.Tensor) -> bool:
        """Return whether these rows [rows, hidden] are few, and what the weights are in."""
        is_same = hidden.dtype is self.qkv.weight.dtype
        return is_same and hidden.shape[0] <= self.most_rows

    def forward(
        self,
        added: torch.Tensor | None,
        hidden: torch.Tensor,
        attend: Callable[[torch.Tensor], torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what is to be added to the hidden states behind the layer, and those.

        `attend` turns queries, keys and values of the rows into [rows, heads · head_dim].
        """
        x, residual = (hidden, None) if added is None else (added, hidden)
        qkv, hidden = self._project(self.qkv, x, residual=residual, norm=self.attn_norm)
        attended, _ = self._project(self.o, attend(qkv))
        gated, hidden = self.project(
            attended,
            self.gate_up.weight,
            self.gate_up.bias,
            residual=hidden,
            norm=self.mlp_norm,
            eps=self.eps,
            gate=self.activation,
        )
        return self._project(self.down, gated)[0], hidden

    def _project(
        self,
        linear: DenseLinear,
        x: torch.Tensor,
        *,
        residual: torch.Tensor | None = None,
        norm: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.project(
            x, linear.weight, linear.bias, residual=residual, norm=norm, eps=self.eps
        )


def few_rows_of(
    operators: Operators,
    linears: tuple[Linear, Linear, Linear, Linear],
    norms: tuple[torch.Tensor, torch.Tensor],
    *,
    eps: float,
    activation: Activation,
) -> FewRows | None:
    """Return how a layer projects few rows: qkv, o, gate_up and down, its two norms.

    None where the device has no such operator or a matrix is not dense.
    """
    if operators.project_few is None:
        return None
    qkv, o, gate_up, down = linears
    if not (isinstance(qkv, DenseLinear) and isinstance(o, DenseLinear)):
        return None
    if not (isinstance(gate_up, DenseLinear) and isinstance(down, DenseLinear)):
        return None
    return FewRows(
        operators.project_few,
        operators.most_few,
        qkv,
        o,
        gate_up,
        down,
        *norms,
        eps,
        activation,
    )
