"""The native decoder: Llama-shaped models (`models.families`) from a fused state dict.

State dict, all of one dtype; D = head_dim, H = heads, G = KV heads:
  embed.weight [vocab, hidden]; norm.weight [hidden]; head.weight [vocab, hidden] unless tied
  layers.i.attn_norm.weight, layers.i.mlp_norm.weight [hidden]
  layers.i.attn_post_norm.weight, layers.i.mlp_post_norm.weight [hidden] if the family normalises
    what attention and MLP give before it is added
  layers.i.qkv.weight [(H + 2G)·D, hidden] (q, k, v), layers.i.qkv.bias if the family has one
  layers.i.q_norm.weight, layers.i.k_norm.weight [D] if the family has them, [H·D] and [G·D] if it
    normalises all heads together
  layers.i.o.weight [hidden, H·D]
  layers.i.gate_up.weight [2·intermediate, hidden], layers.i.down.weight [hidden, intermediate]
  rope_factors [D/2] float32, optional
Beside a projection's .weight there may be .four_bit and .four_bit_scales, see `linear`. On a card
projections, head and embeddings may have .int8 or .int4 and its scales instead, `quantised_linear`.
A model in 8 bits (see `eight_bit`) has .eight_bit and .eight_bit_scales instead of the weights of
projections and head, down.turn, and no norms but q_norm and k_norm; one that normalises what it
adds has all of its norms and read.turn. `team_decoder` computes it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.batch import Batch
from localpaged.engine.few_rows import few_rows_of
from localpaged.engine.kv_storage import KVStorage, LayerKV
from localpaged.engine.linear import make_embedding, make_linear
from localpaged.engine.operators import Angles, Operators, torch_operators
from localpaged.engine.rotations import Rotations


class NativeDecoder:
    """A PagedModel. Engine thread only; weights never change.

    It computes where the state dict lies, with operators for there; torch's when none are given.
    """

    def __init__(
        self,
        config: DecoderConfig,
        state: Mapping[str, torch.Tensor],
        *,
        operators: Operators | None = None,
    ) -> None:
        self.config = config
        self.operators = operators or torch_operators()
        self._embed = embed = make_embedding(state)
        self._layers = [
            _Layer(config, state, self.operators, index) for index in range(config.num_layers)
        ]
        self._norm = state["norm.weight"]
        self._head = make_linear(state, "embed" if config.is_tied else "head")
        # Rounded to the embeddings' dtype, as the models were trained.
        self._embed_scale = None
        if config.embed_scale != 1.0:
            self._embed_scale = torch.tensor(
                config.embed_scale, dtype=embed.dtype, device=embed.device
            )
        self._rotations = Rotations(
            config,
            self.operators,
            dtype=embed.dtype,
            device=embed.device,
            factors=state.get("rope_factors"),
        )

    def forward(self, batch: Batch, kv: KVStorage) -> torch.Tensor:
        """See PagedModel."""
        hidden = self._embed(batch.token_ids)
        if self._embed_scale is not None:
            hidden = hidden * self._embed_scale
        rotations = self._rotations.of_step(batch.positions)
        added = post_norm = None
        for layer, layer_kv, angles in zip(self._layers, kv.layers, rotations, strict=True):
            added, hidden = layer.forward(added, post_norm, hidden, batch, layer_kv, angles)
            post_norm = layer.mlp_post_norm
        if added is None:
            return hidden
        if post_norm is not None:
            added = self.operators.rms_norm(added, post_norm, eps=self.config.rms_norm_eps)
        return hidden + added

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See PagedModel."""
        normed = self.operators.rms_norm(hidden, self._norm, eps=self.config.rms_norm_eps)
        logits = self._head(normed).float()
        cap = self.config.logit_softcap
        return logits if cap is None else logits.div_(cap).tanh_().mul_(cap)


class _Layer:
    """One layer. What its MLP adds is added by whoever normalises the sum, in one pass over it.

    `window` is how many tokens it sees, None for all; what its MLP adds is to be normalised with
    `mlp_post_norm` first, where there is one.
    """

    def __init__(
        self,
        config: DecoderConfig,
        state: Mapping[str, torch.Tensor],
        operators: Operators,
        index: int,
    ) -> None:
        prefix = f"layers.{index}."
        self._config = config
        self._operators = operators
        self.window = config.window(index)
        self.mlp_post_norm = state.get(prefix + "mlp_post_norm.weight")
        self._attn_post_norm = state.get(prefix + "attn_post_norm.weight")
        self._attn_norm = state.get(prefix + "attn_norm.weight")
        self._mlp_norm = state.get(prefix + "mlp_norm.weight")
        self._q_norm = state.get(prefix + "q_norm.weight")
        self._k_norm = state.get(prefix + "k_norm.weight")
        self._qkv = make_linear(state, prefix + "qkv")
        self._o = make_linear(state, prefix + "o")
        self._gate_up = make_linear(state, prefix + "gate_up")
        self._down = make_linear(state, prefix + "down")
        self._few_rows = None
        if (
            self.mlp_post_norm is None
            and self._attn_norm is not None
            and self._mlp_norm is not None
        ):
            self._few_rows = few_rows_of(
                operators,
                (self._qkv, self._o, self._gate_up, self._down),
                (self._attn_norm, self._mlp_norm),
                eps=config.rms_norm_eps,
                activation=config.activation,
            )

    def forward(
        self,
        added: torch.Tensor | None,
        post_norm: torch.Tensor | None,
        hidden: torch.Tensor,
        batch: Batch,
        kv: LayerKV,
        angles: Angles,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what is to be added to the hidden states behind this layer, and those.

        `added` is the same of the layer before, and `post_norm` its norm.
        """
        if self._few_rows is not None and self._few_rows.takes(hidden):
            return self._few_rows.forward(
                added, hidden, lambda qkv: self._attend(qkv, batch, kv, angles)
            )
        normed, hidden = self._sum(added, hidden, self._attn_norm, post_norm)
        attended = self._o(self._attend(self._qkv(normed), batch, kv, angles))
        normed, hidden = self._sum(attended, hidden, self._mlp_norm, self._attn_post_norm)
        gated = self._operators.gate(self._gate_up(normed), self._config.activation)
        return self._down(gated), hidden

    def _sum(
        self,
        added: torch.Tensor | None,
        hidden: torch.Tensor,
        weight: torch.Tensor | None,
        post_norm: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what is read next, normalised where there is a weight, and the hidden states."""
        operators, eps = self._operators, self._config.rms_norm_eps
        if weight is not None:
            if added is None:
                return operators.rms_norm(hidden, weight, eps=eps), hidden
            return operators.add_rms_norm(added, hidden, weight, eps=eps, x_weight=post_norm)
        if added is not None:
            if post_norm is not None:
                added = operators.rms_norm(added, post_norm, eps=eps)
            hidden = hidden + added
        return hidden, hidden

    def _attend(self, qkv: torch.Tensor, batch: Batch, kv: LayerKV, angles: Angles) -> torch.Tensor:
        config = self._config
        q_norm, k_norm = self._q_norm, self._k_norm
        if config.has_wide_qk_norm:
            qkv, q_norm, k_norm = self._widely_normed(qkv), None, None
        queries = self._operators.rope_and_write(
            qkv.view(-1, config.num_heads + 2 * config.num_kv_heads, config.head_dim),
            kv.numbers,
            batch.slots,
            angles,
            scales=kv.scales,
            q_norm=q_norm,
            k_norm=k_norm,
            eps=config.rms_norm_eps,
        )
        out = self._operators.attend(
            queries,
            kv.numbers,
            batch.attention,
            scale=config.softmax_scale,
            window=self.window,
            kv_scales=kv.scales,
            softcap=config.attention_softcap,
        )
        return out.flatten(1)

    def _widely_normed(self, qkv: torch.Tensor) -> torch.Tensor:
        """Return queries, keys and values, those of all heads normalised together."""
        assert self._q_norm is not None and self._k_norm is not None
        eps, q, k = self._config.rms_norm_eps, len(self._q_norm), len(self._k_norm)
        queries, keys, values = qkv.split((q, k, qkv.shape[1] - q - k), dim=1)
        queries = self._operators.rms_norm(queries, self._q_norm, eps=eps)
        keys = self._operators.rms_norm(keys, self._k_norm, eps=eps)
        return torch.cat((queries, keys, values), dim=1)
