"""The shape of a Llama-like decoder: what a model file says and the native decoder needs.

Plain values, no torch: `models` fills it from GGUF metadata or a transformers config,
`engine.native` builds layers from it, and sizes are computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu_tanh"]
"""What gates an MLP; gelu_tanh is GELU in its approximation by tanh."""


@dataclass(frozen=True, slots=True)
class Llama3RopeScaling:
    """Frequency-dependent rope scaling of Llama 3.1 (transformers `rope_type: llama3`)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True, slots=True)
class LinearRopeScaling:
    """Positions divided by `factor` (transformers `rope_type: linear`)."""

    factor: float


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Dimensions and switches of one decoder-only model.

    `architecture` is the family: llama, mistral, qwen2, qwen3, ... `context_length` is in tokens.
    `rope_factors` (one per rotated pair) divide the rope frequencies; GGUF files carry
    Llama 3 scaling in this form. `sliding_window` counts the visible tokens, own token included;
    the `full_layers` have none, and where there is a `local_rope_theta` it is that of the others,
    whose frequencies are not scaled; the `unrotated_layers` have no rotations at all. With
    `has_post_norms` what attention and MLP add is normalised before it is added, without
    `has_pre_norms` what they read is not; with `has_wide_qk_norm` queries and keys are normalised
    over all heads together. Embeddings are multiplied by `embed_scale`, attention's scores by
    `query_scale`, 1/√head_dim unless told. A softcap c makes c·tanh(x/c) of scores or logits.
    The last norm's weights are multiplied by `last_norm_scale` when they are loaded.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    context_length: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Llama3RopeScaling | LinearRopeScaling | None = None
    has_qkv_bias: bool = False
    has_qk_norm: bool = False
    is_tied: bool = False
    sliding_window: int | None = None
    full_layers: tuple[int, ...] = ()
    local_rope_theta: float | None = None
    activation: Activation = "silu"
    has_post_norms: bool = False
    embed_scale: float = 1.0
    query_scale: float | None = None
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    unrotated_layers: tuple[int, ...] = ()
    last_norm_scale: float = 1.0
    has_pre_norms: bool = True
    has_wide_qk_norm: bool = False

    def window(self, layer: int) -> int | None:
        """Return how many tokens a layer sees, the own one included; None for all."""
        return None if layer in self.full_layers else self.sliding_window

    @property
    def softmax_scale(self) -> float:
        """What scores of queries and keys are multiplied by."""
        return self.head_dim**-0.5 if self.query_scale is None else self.query_scale

    @property
    def qkv_rows(self) -> int:
        """Output rows of the fused query, key and value projection."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    def kv_bytes_per_token(self, element_bytes: int, *, scale_bytes: int = 0) -> int:
        """Bytes of K and V that one token takes in all layers, one scale a head included."""
        row_bytes = self.head_dim * element_bytes + scale_bytes
        return 2 * self.num_layers * self.num_kv_heads * row_bytes
