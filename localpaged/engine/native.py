"""The native decoder: Llama-shaped models (Llama, Mistral, Qwen2, Qwen3) from a fused state dict.

State dict, all of one dtype; D = head_dim, H = heads, G = KV heads:
  embed.weight [vocab, hidden]; norm.weight [hidden]; head.weight [vocab, hidden] unless tied
  layers.i.attn_norm.weight, layers.i.mlp_norm.weight [hidden]
  layers.i.qkv.weight [(H + 2G)·D, hidden] (q, k, v), layers.i.qkv.bias if the family has one
  layers.i.q_norm.weight, layers.i.k_norm.weight [D] if the family has them
  layers.i.o.weight [hidden, H·D]
  layers.i.gate_up.weight [2·intermediate, hidden], layers.i.down.weight [hidden, intermediate]
  rope_factors [D/2] float32, optional
Beside a projection's .weight there may be .four_bit and .four_bit_scales, see `linear`.
A model in 8 bits (see `eight_bit`) has .eight_bit and .eight_bit_scales instead of the weights of
projections and head, down.turn, no norms but q_norm and k_norm, and computes in float32.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.batch import Batch
from localpaged.engine.kv_storage import KVStorage, LayerKV
from localpaged.engine.linear import make_linear
from localpaged.engine.rope import RopeTable, rotate
from localpaged_kernels import paged_attention, write_kv


class NativeDecoder:
    """A PagedModel. Engine thread only; weights never change."""

    def __init__(self, config: DecoderConfig, state: Mapping[str, torch.Tensor]) -> None:
        self.config = config
        self._embed = state["embed.weight"]
        self._layers = [_Layer(config, state, index) for index in range(config.num_layers)]
        self._norm = state.get("norm.weight")
        is_eight_bit = "head.eight_bit" in state
        has_own_head = is_eight_bit or not config.is_tied
        self._head = make_linear(state, "head" if has_own_head else "embed")
        self._dtype = torch.float32 if is_eight_bit else self._embed.dtype
        self._rope = RopeTable(config, dtype=self._dtype, factors=state.get("rope_factors"))

    def forward(self, batch: Batch, kv: KVStorage) -> torch.Tensor:
        """See PagedModel."""
        hidden = F.embedding(batch.token_ids, self._embed).to(self._dtype)
        cos, sin = self._rope.at(batch.positions)
        for layer, layer_kv in zip(self._layers, kv.layers, strict=True):
            hidden = layer.forward(hidden, batch, layer_kv, cos, sin)
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See PagedModel."""
        return self._head(_rms_norm(hidden, self._norm, self.config.rms_norm_eps)).float()


class _Layer:
    def __init__(
        self, config: DecoderConfig, state: Mapping[str, torch.Tensor], index: int
    ) -> None:
        prefix = f"layers.{index}."
        self._config = config
        self._is_eight_bit = prefix + "qkv.eight_bit" in state
        self._attn_norm = state.get(prefix + "attn_norm.weight")
        self._mlp_norm = state.get(prefix + "mlp_norm.weight")
        self._q_norm = state.get(prefix + "q_norm.weight")
        self._k_norm = state.get(prefix + "k_norm.weight")
        self._qkv = make_linear(state, prefix + "qkv")
        self._o = make_linear(state, prefix + "o")
        self._gate_up = make_linear(state, prefix + "gate_up")
        self._down = make_linear(state, prefix + "down")

    def forward(
        self,
        hidden: torch.Tensor,
        batch: Batch,
        kv: LayerKV,
        cos: torch.Tensor,
        sin: torch.Tensor,
    ) -> torch.Tensor:
        config = self._config
        normed = _rms_norm(hidden, self._attn_norm, config.rms_norm_eps)
        hidden = hidden + self._o(self._attend(self._qkv(normed), batch, kv, cos, sin))
        normed = _rms_norm(hidden, self._mlp_norm, config.rms_norm_eps)
        gate, up = self._gate_up(normed).chunk(2, dim=-1)
        return hidden + self._down(F.silu(gate).mul_(up))

    def _attend(
        self,
        qkv: torch.Tensor,
        batch: Batch,
        kv: LayerKV,
        cos: torch.Tensor,
        sin: torch.Tensor,
    ) -> torch.Tensor:
        config = self._config
        num_q, num_kv = config.num_heads, config.num_kv_heads
        heads = qkv.view(-1, num_q + 2 * num_kv, config.head_dim)
        queries_keys, values = heads[:, : num_q + num_kv], heads[:, num_q + num_kv :]
        if self._q_norm is not None and self._k_norm is not None:
            queries, keys = queries_keys[:, :num_q], queries_keys[:, num_q:]
            queries_keys = torch.cat(
                (
                    _rms_norm(queries, self._q_norm, config.rms_norm_eps),
                    _rms_norm(keys, self._k_norm, config.rms_norm_eps),
                ),
                dim=1,
            )
        rotated = rotate(queries_keys, cos, sin)
        write_kv(kv.numbers, rotated[:, num_q:], values, batch.slots, scales=kv.scales)
        out = paged_attention(
            rotated[:, :num_q],
            kv.numbers,
            batch.attention,
            scale=config.head_dim**-0.5,
            window=config.sliding_window,
            kv_scales=kv.scales,
            # In 8 bits the exact sums of float32 are nobody's: 16-bit numbers need no widening.
            decode_dtype=torch.bfloat16 if self._is_eight_bit else None,
        )
        return out.flatten(1)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, eps)
