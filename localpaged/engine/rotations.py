"""Rotations: which angles each layer rotates queries and keys by."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.operators import Angles, Operators
from localpaged.engine.rope import RopeTable

Kind = Literal["all", "window", "none"]


class Rotations:
    """Tables of angles, made once, for each kind of layer there is. Engine thread only.

    A layer that rotates nothing is rotated by the angles of the first position, which are zero.
    """

    def __init__(
        self,
        config: DecoderConfig,
        operators: Operators,
        *,
        dtype: torch.dtype,
        device: torch.device,
        factors: torch.Tensor | None = None,
    ) -> None:
        self._operators = operators
        self._kinds = [_kind(config, layer) for layer in range(config.num_layers)]
        first_alone = replace(config, context_length=1)
        self._tables = {
            kind: RopeTable(
                first_alone if kind == "none" else config,
                dtype=operators.rope_dtype or dtype,
                device=device,
                factors=factors,
                is_local=kind == "window",
            )
            for kind in dict.fromkeys(self._kinds)
        }

    def of_step(self, positions: torch.Tensor) -> list[Angles]:
        """Return each layer's angles of tokens at positions [tokens] int64."""
        found = {
            kind: self._operators.angles(
                table, torch.zeros_like(positions) if kind == "none" else positions
            )
            for kind, table in self._tables.items()
        }
        return [found[kind] for kind in self._kinds]


def _kind(config: DecoderConfig, layer: int) -> Kind:
    if layer in config.unrotated_layers:
        return "none"
    has_own = config.local_rope_theta is not None and config.window(layer) is not None
    return "window" if has_own else "all"
