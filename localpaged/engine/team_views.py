"""How layers of one kind attend in a step: to a window of tokens, or to all that came before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.rope import RopeTable
from localpaged_kernels import AttentionBatch
from localpaged_kernels.cpu_step.units import plan_units

FIRST_POSITIONS = 4_096
"""Angles made at first: those of a long context take hundreds of megabytes and half a second."""

Plan = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]
"""What `plan_units` returns."""


class View:
    """What layers of one kind have in common. Engine thread only.

    `window` is 0 where there is none; `rope` has the angles of as many positions as were asked for,
    and is None where nothing is rotated.
    """

    def __init__(
        self, config: DecoderConfig, window: int, *, is_rotated: bool, factors: torch.Tensor | None
    ) -> None:
        self.window = window
        self._config = config
        self._factors = factors
        self._is_local = bool(window) and config.local_rope_theta is not None
        self.rope = self._angles(FIRST_POSITIONS) if is_rotated else None

    def need(self, positions: int) -> None:
        """Have angles for so many positions."""
        if self.rope is not None and positions > (has := len(self.rope.cos)):
            self.rope = self._angles(max(positions, 2 * has))

    def _angles(self, positions: int) -> RopeTable:
        length = min(positions, self._config.context_length)
        return RopeTable(
            replace(self._config, context_length=length),
            dtype=torch.float32,
            factors=self._factors,
            is_local=self._is_local,
        )


def views_of(config: DecoderConfig, factors: torch.Tensor | None) -> tuple[list[View], list[int]]:
    """Return a model's views, four at most, and which of them each layer has."""
    of_layers = [
        (config.window(layer) or 0, layer not in config.unrotated_layers)
        for layer in range(config.num_layers)
    ]
    kinds = sorted(set(of_layers))
    views = [
        View(config, window, is_rotated=is_rotated, factors=factors) for window, is_rotated in kinds
    ]
    return views, [kinds.index(kind) for kind in of_layers]


def plan_views(
    views: Sequence[View],
    attention: AttentionBatch,
    tables: np.ndarray,
    *,
    group: int,
    threads: int,
) -> list[Plan]:
    """Return the units of work of each view; `tables` are all sequences', one after the other."""
    lens = np.fromiter(map(len, attention.tables), np.int64)
    starts = lens.cumsum() - lens
    asked, seen = (np.array(n, np.int64) for n in (attention.query_lens, attention.seq_lens))
    longest = max(attention.seq_lens)
    # a window that all sequences fit into is none
    windows = [view.window if view.window < longest else 0 for view in views]
    plans = {
        window: plan_units(asked, seen, tables, starts, group, window, threads)
        for window in set(windows)
    }
    return [plans[window] for window in windows]
