"""Rotary position embedding (RoFormer, arXiv 2104.09864), linear and Llama 3.1 scaling."""

from __future__ import annotations

import math

import numpy as np
import torch

from localpaged.decoder_config import DecoderConfig, LinearRopeScaling, Llama3RopeScaling


class RopeTable:
    """Cosines and signed sines of all positions [positions, head_dim], made once.

    `is_local` makes those of layers with a window, where they have a base of their own.
    Half-split pairs, as in transformers. They are computed by one thread in float64: of two
    threads that are the first of a process to ask torch for cosines, one may get others (MKL).
    """

    def __init__(
        self,
        config: DecoderConfig,
        *,
        dtype: torch.dtype,
        device: torch.device | None = None,
        factors: torch.Tensor | None = None,
        is_local: bool = False,
    ) -> None:
        frequencies = _local(config) if is_local else _scaled(config, factors)
        angles = torch.outer(torch.arange(config.context_length).float(), frequencies)
        cos, sin = (
            torch.from_numpy(function(angles.numpy(), dtype=np.float64)).to(device, dtype)
            for function in (np.cos, np.sin)
        )
        self.cos = cos.repeat(1, 2)
        # The first half's sine is negated: rotation is then x·cos + swapped(x)·sin.
        self.sin = torch.cat((-sin, sin), dim=-1)

    def at(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and signed sines [tokens, 1, head_dim] for positions [tokens]."""
        return self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate heads [tokens, heads, head_dim] by their positions' angles."""
    half = heads.shape[-1] // 2
    return torch.addcmul(heads * cos, heads.roll(half, -1), sin)


def _local(config: DecoderConfig) -> torch.Tensor:
    assert config.local_rope_theta is not None
    return _frequencies(config.local_rope_theta, config.head_dim)


def _scaled(config: DecoderConfig, factors: torch.Tensor | None) -> torch.Tensor:
    frequencies = _frequencies(config.rope_theta, config.head_dim)
    if isinstance(config.rope_scaling, LinearRopeScaling):
        frequencies = frequencies / config.rope_scaling.factor
    elif config.rope_scaling is not None:
        frequencies = _llama3(frequencies, config.rope_scaling)
    return frequencies if factors is None else frequencies / factors.cpu()


def _frequencies(theta: float, head_dim: int) -> torch.Tensor:
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    return 1.0 / theta**exponents


def _llama3(frequencies: torch.Tensor, scaling: Llama3RopeScaling) -> torch.Tensor:
    """Slow long waves down by `factor`, keep short ones, blend between (Llama 3.1)."""
    wavelengths = 2 * math.pi / frequencies
    smooth = (scaling.original_context / wavelengths - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    smooth = smooth.clamp(0, 1)
    return frequencies * (smooth + (1 - smooth) / scaling.factor)
